// SPDX-License-Identifier: Apache-2.0
// Loads a trained model and runs it on tensors of your own. usage: load_and_run MODEL.safetensors
// The file comes from train_your_own.cc, from `unroll train` (runs/x/best.safetensors), or from PyTorch:
//   class Net(torch.nn.Module):
//       def __init__(self):
//           super().__init__()
//           self.gru, self.head = torch.nn.GRU(2, 32), torch.nn.Linear(32, 1)
//   safetensors.torch.save_file(Net().state_dict(), "model.safetensors")
#include <unroll/unroll.h>

#include <cstdio>

using namespace unroll;

// The same layers under the same names: parameters "gru.weight_ih_l0", "head.weight", ...
TaskGraph network(Scope& scope, const Inputs& in) {
  const CellLayerResult gru = recurrent_model(scope.child("gru"), in["x"], {.cell = "gru", .hidden = 32});
  TaskGraph task;
  task.outputs = {{"prediction", linear_layer(scope.child("head"), row(gru.states[0], 0), 1)}};
  return task;
}

// Whole sequences: x [T,B,2] in, prediction [B,1] out.
void run_network(const TensorFile& file, Backend& backend) {
  Model model(backend, network, file.tensors);
  const Tensor x = Tensor::from<float>({3, 1, 2}, {0.2f, 1, 0.9f, 0, 0.5f, 1});
  const TensorMap outputs = model.run({{"x", x}});  // compiled once for each shape
  std::printf("prediction %.3f\n", outputs.at("prediction").at(0));
}

// A model that `unroll train` wrote describes its network itself. One step per call; the state is carried inside.
void run_trained(const TensorFile& file, Backend& backend) {
  Stream stream(backend, task_stream(file.metadata), file.tensors);
  std::vector<float> x(static_cast<std::size_t>(stream.inputs())), y(static_cast<std::size_t>(stream.outputs()));
  for (int t = 0; t < 5; ++t) {
    for (float& value : x) value = static_cast<float>(t);
    if (stream.step(x, y)) std::printf("step %d: first output %.3f\n", t, static_cast<double>(y[0]));
  }
}

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: load_and_run MODEL.safetensors\n"), 2;
  const auto backend = make_backend("cpu");
  const TensorFile file = load_model(argv[1]);
  (file.metadata.contains("task") ? run_trained : run_network)(file, *backend);
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());  // "[model.safetensors] cannot open ..."
  return exit_code(e.kind());
}
