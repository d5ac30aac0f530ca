#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes runtime_cases.safetensors: models of one node with the outputs of ONNX Runtime, where ONNX has no node test.

They cover the operators of com.microsoft, and forms of standard operators that the ONNX project does not test.
"""
import argparse
import pathlib

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from make_node_cases import stored, write

RANDOM = numpy.random.default_rng(0)
MICROSOFT = "com.microsoft"


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def integers(dtype, *shape):
    limits = numpy.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def weights(*shape):
    """7 bits: without VNNI, ONNX Runtime adds pairs of products of uint8 and int8 in 16 bits, which saturate."""
    return RANDOM.integers(-63, 64, shape).astype(numpy.int8)


def listed(*values):
    return numpy.array(values, numpy.int64)


class Cases:
    def __init__(self):
        self.tensors, self.names = {}, set()
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = 1  # rows that threads compute apart are quantized apart
        self.options.log_severity_level = 3

    def add(self, name, op, inputs, constants=(), outputs=1, domain="", opset=17, expected=None, **attributes):
        """`inputs`: arrays, None for an omitted one. `constants`: the positions that are initializers."""
        assert name not in self.names, name
        labels = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
        present = {label: value for label, value in zip(labels, inputs) if label}
        results = [f"y{i}" if wanted else "" for i, wanted in enumerate([1] * outputs if isinstance(outputs, int)
                                                                        else outputs)]
        node = helper.make_node(op, labels, results, domain=domain, **attributes)
        self.run(name, [node], present, {f"x{i}" for i in constants}, results, opset, expected)

    def run(self, name, nodes, values, constants, results, opset, expected=None):
        """`expected` replaces ONNX Runtime where it lacks a form of an operator."""
        self.names.add(name)
        describe = lambda label, value: helper.make_tensor_value_info(
            label, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        inputs = {label: value for label, value in values.items() if label not in constants}
        graph = helper.make_graph(
            nodes, name, [describe(*item) for item in inputs.items()],
            [onnx.ValueInfoProto(name=label) for label in results if label],
            [numpy_helper.from_array(values[label], label) for label in constants])
        model = helper.make_model(graph, ir_version=8, opset_imports=[
            helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)])
        self.tensors[f"{name}/model"] = numpy.frombuffer(model.SerializeToString(), numpy.uint8)
        for label, value in inputs.items():
            self.tensors[f"{name}/input/{label}"] = stored(value, None)
        names = [label for label in results if label]
        if expected is None:
            session = onnxruntime.InferenceSession(model.SerializeToString(), self.options)
            outputs = session.run(names, inputs)
        else:
            outputs = [expected]
        for label, value in zip(names, outputs, strict=True):
            self.tensors[f"{name}/output/{label}"] = stored(value, None)

    def replace(self, name, expected):
        """Replaces an output of which f32 loses digits by the result of f64."""
        key = f"{name}/output/y0"
        numpy.testing.assert_allclose(self.tensors[key], expected, atol=1e-4)
        self.tensors[key] = expected.astype(numpy.float32)


def activations(cases):
    x, bias = floats(3, 8) * 3, floats(8)
    cases.add("gelu", "Gelu", [x], domain=MICROSOFT)
    cases.add("fast_gelu", "FastGelu", [x], domain=MICROSOFT)
    cases.add("fast_gelu_bias", "FastGelu", [x, bias], domain=MICROSOFT)
    cases.add("bias_gelu", "BiasGelu", [x, bias], domain=MICROSOFT)
    cases.add("quick_gelu", "QuickGelu", [x], domain=MICROSOFT, alpha=1.5)
    cases.add("round", "Round", [numpy.array([-2.5, -1.5, -0.5, 0.49999997, 0.5, 1.5, 2.5, 8388609, 3e9, -numpy.inf],
                                             numpy.float32)])
    cases.add("mod_signs", "Mod", [numpy.array([-7, 7, -7, 7, 6, -6], numpy.int32),
                                   numpy.array([3, -3, -3, 3, 3, 3], numpy.int32)])
    cases.add("mish", "Mish", [x], opset=18)
    cases.add("celu", "Celu", [x], alpha=2.0)
    cases.add("sin", "Sin", [floats(5)], constants=[0])
    for to in ("UINT8", "INT8", "UINT16", "INT16"):
        cases.add(f"cast_wraps_{to}".lower(), "Cast", [numpy.array([-1, 300, 128, -129, 70000, 0], numpy.int32)],
                  to=TensorProto.DataType.Value(to))
    cases.add("hann_window", "HannWindow", [numpy.array(7, numpy.int64)], constants=[0])
    cases.add("hamming_window", "HammingWindow", [numpy.array(8, numpy.int64)], constants=[0], periodic=0)
    cases.add("blackman_window", "BlackmanWindow", [numpy.array(8, numpy.int64)], constants=[0])


def normalization(cases):
    x, skip, gamma, beta, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    cases.add("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias], domain=MICROSOFT,
              outputs=[1, 0, 0, 1], epsilon=1e-3)
    cases.add("skip_layer_norm_plain", "SkipLayerNormalization", [x, skip, gamma], domain=MICROSOFT)
    cases.add("lp_norm_zero", "LpNormalization", [numpy.concatenate([floats(2, 4), numpy.zeros((1, 4), "f")])])
    cases.add("batch_norm_7", "BatchNormalization", [x, *(numpy.abs(floats(3)) for _ in range(4))], opset=8)
    cases.add("group_norm_18", "GroupNormalization", [floats(2, 4, 5), floats(2), floats(2)], num_groups=2, opset=18)
    for name, values in (("large", [1000, 999, -1000]), ("infinite", [-numpy.inf, -numpy.inf, -numpy.inf])):
        cases.add(f"log_sum_exp_{name}", "ReduceLogSumExp", [numpy.array([values], "f")], axes=[1])
    cases.add("instance_norm_1d", "InstanceNormalization", [x, floats(3), floats(3)], epsilon=1e-2)
    a, b = floats(2, 4, 3), floats(2, 5, 4)
    cases.add("fused_matmul", "FusedMatMul", [a, b], domain=MICROSOFT, transA=1, transB=1, alpha=0.5)


def quantized(cases):
    a, b = integers(numpy.uint8, 3, 300), integers(numpy.uint8, 300, 4)
    a[0], b[:, 0] = 255, 255
    zero = numpy.zeros((), numpy.uint8)
    cases.add("matmul_integer_long", "MatMulInteger", [a, b, zero, zero])
    a, b = integers(numpy.uint8, 3, 6), weights(6, 4)
    cases.add("matmul_integer_columns", "MatMulInteger", [a, b, numpy.uint8(7)[...], integers(numpy.int8, 4)],
              constants=[1, 3])
    rows = numpy.array([1, 200, 7], numpy.uint8)  # ONNX Runtime supports one zero point of the left operand only
    cases.add("matmul_integer_rows", "MatMulInteger", [a, b, rows], constants=[2],
              expected=(a.astype(numpy.int32) - rows[:, None]) @ b.astype(numpy.int32))
    cases.add("matmul_integer_3d", "MatMulInteger", [integers(numpy.uint8, 2, 3, 6), b])
    scale, scales = numpy.float32(0.02)[...], numpy.abs(floats(4)) * numpy.float32(0.1)
    cases.add("matmul_integer_to_float", "MatMulIntegerToFloat",
              [a, b, scale, scales, numpy.uint8(9)[...], integers(numpy.int8, 4), floats(4)], domain=MICROSOFT)
    cases.add("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
              [floats(3, 6), b, scales, integers(numpy.int8, 4), floats(4)], domain=MICROSOFT, constants=[1, 2, 3])
    cases.add("qlinear_matmul_columns", "QLinearMatMul",
              [a, scale, numpy.uint8(9)[...], b, scales, integers(numpy.int8, 4), numpy.float32(0.3)[...],
               numpy.uint8(100)[...]], constants=[3, 4, 5])
    ties = numpy.array([[-0.5, 0.5, 1.5, 2.5, 1e9, -1e9, numpy.inf, -numpy.inf]], numpy.float32)
    for dtype in (numpy.uint8, numpy.int8, numpy.uint16, numpy.int16):
        cases.add(f"quantize_{dtype.__name__}", "QuantizeLinear",
                  [ties, numpy.float32(1)[...], dtype(3)[...]], constants=[1, 2], opset=21)
        cases.add(f"dequantize_{dtype.__name__}", "DequantizeLinear",
                  [integers(dtype, 3, 4), scales, integers(dtype, 4)], axis=-1, opset=21)
    cases.add("quantize_microsoft", "QuantizeLinear", [floats(3, 4) * 9, scales, integers(numpy.int8, 4)], axis=1,
              domain=MICROSOFT)
    cases.add("dequantize_microsoft", "DequantizeLinear", [integers(numpy.uint8, 3, 4), scale, numpy.uint8(4)[...]],
              domain=MICROSOFT)
    cases.add("quantize_without_zero", "QuantizeLinear", [ties, numpy.float32(1)[...]])
    quantize = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
                helper.make_node("QuantizeLinear", ["x", "scale_2", "zero"], ["y0"])]
    values = {"x": floats(9), "scale_2": numpy.float32(0.01)[...]}
    cases.run("quantize_like_dynamic", quantize, values, ["scale_2"], ["y0"], 17)
    squares = floats(6) ** 2
    for name, x in (("zeros", squares * 0), ("positive", squares), ("negative", -squares)):
        cases.add(f"dynamic_quantize_{name}", "DynamicQuantizeLinear", [x], outputs=3)


def dynamic_lstm(cases, name, steps=4, batch=1, width=5, hidden=6, directions=1, dtype=numpy.int8, columns=True,
                 lengths=None, initial=False, peepholes=False, outputs=3, **attributes):
    shape = (directions, 4 * hidden) if columns else (directions,)
    scale = lambda: numpy.abs(floats(*shape)) * numpy.float32(0.01) + numpy.float32(0.001)
    zero = lambda: numpy.full(shape, 131 if dtype == numpy.uint8 else 0, dtype)  # ONNX Runtime requires equal ones
    state = lambda: floats(directions, batch, hidden) if initial else None
    attributes["direction"] = {1: "forward", 2: "bidirectional"}[directions] if "direction" not in attributes else (
        attributes["direction"])
    matrix = lambda *shape: weights(*shape) if dtype == numpy.int8 else integers(dtype, *shape)
    cases.add(name, "DynamicQuantizeLSTM",
              [floats(steps, batch, width), matrix(directions, width, 4 * hidden),
               matrix(directions, hidden, 4 * hidden), floats(directions, 8 * hidden),
               None if lengths is None else numpy.array(lengths, numpy.int32), state(), state(),
               floats(directions, 3 * hidden) if peepholes else None, scale(), zero(), scale(), zero()],
              constants=[1, 2, 3, 8, 9, 10, 11], outputs=outputs, domain=MICROSOFT, hidden_size=hidden, **attributes)


def dynamic_lstms(cases):
    dynamic_lstm(cases, "dynamic_lstm")
    dynamic_lstm(cases, "dynamic_lstm_uint8", dtype=numpy.uint8)
    dynamic_lstm(cases, "dynamic_lstm_tensor", columns=False, initial=True)
    dynamic_lstm(cases, "dynamic_lstm_both", batch=3, directions=2, initial=True, peepholes=True)
    dynamic_lstm(cases, "dynamic_lstm_reverse", batch=2, direction="reverse", clip=0.7)
    dynamic_lstm(cases, "dynamic_lstm_lengths", batch=3, lengths=[3, 1, 2], initial=True)
    dynamic_lstm(cases, "dynamic_lstm_lengths_long", steps=8, batch=4, lengths=[8, 1, 2, 1])
    dynamic_lstm(cases, "dynamic_lstm_lengths_last", batch=3, lengths=[3, 1, 2], outputs=[0, 1, 1])
    dynamic_lstm(cases, "dynamic_lstm_lengths_both", directions=2, lengths=[3])
    dynamic_lstm(cases, "dynamic_lstm_lengths_unsupported", batch=2, directions=2, lengths=[2, 3])
    dynamic_lstm(cases, "dynamic_lstm_wide", steps=2, width=300, hidden=4)


def padding(cases):
    x, pads = floats(4, 5), listed(1, -1, 2, 3)
    for mode in ("constant", "reflect", "edge", "wrap"):
        opset = 19 if mode == "wrap" else 18
        cases.add(f"pad_{mode}_negative", "Pad", [x, pads], constants=[1], mode=mode, opset=opset)
        cases.add(f"pad_{mode}_axes", "Pad", [x, listed(2, 1), None, listed(-1)], constants=[1, 3], mode=mode,
                  opset=opset)
        cases.add(f"pad_{mode}_int32", "Pad", [RANDOM.integers(0, 9, (2, 3, 4)).astype(numpy.int32),
                                               listed(0, 1, 2, 0, 2, 1)], constants=[1], mode=mode, opset=opset)
    cases.add("pad_constant_value", "Pad", [x, pads, numpy.float32(7)[...]], constants=[1, 2])


def indexing(cases):
    for equation, shapes in (("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))), ("ij,jk", ((3, 4), (4, 5))),
                             ("...ij,...jk->...ik", ((2, 1, 3, 4), (2, 5, 4, 2))),
                             ("...ij,...jk", ((2, 3, 4), (2, 4, 2))), ("i,j->ij", ((3,), (4,))),
                             ("bhqd,bkhd->bhqk", ((2, 2, 3, 4), (2, 5, 2, 4))), ("ij->ji", ((3, 4),)),
                             ("ijk->", ((2, 3, 4),)), ("ba", ((2, 3),)), ("ab,bc,cd->ad", ((2, 3), (3, 4), (4, 2))),
                             ("abc,c->b", ((2, 3, 4), (4,))), ("...a,a->...", ((2, 3, 4), (4,)))):
        name = "einsum_" + equation.replace("...", "dots").replace(",", "_").replace("->", "_to_")
        cases.add(name, "Einsum", [floats(*shape) for shape in shapes], equation=equation)
    ties = numpy.array([[3, 1, 3, 2, 3], [0, 0, 0, 0, 1]], numpy.float32)
    for name, largest in (("largest", 1), ("smallest", 0)):
        cases.add(f"top_k_{name}", "TopK", [ties, listed(3)], constants=[1], outputs=2, largest=largest)
        cases.add(f"top_k_{name}_axis", "TopK", [ties.astype(numpy.int32), listed(2)], constants=[1], outputs=2,
                  largest=largest, axis=0)
    least = numpy.iinfo(numpy.int32).min
    cases.add("top_k_least", "TopK", [numpy.array([5, least, 0, least], numpy.int32), listed(3)], constants=[1],
              outputs=2, largest=0)
    cases.add("top_k_infinite", "TopK", [numpy.array([-numpy.inf, 1, -numpy.inf], "f"), listed(3)], constants=[1],
              outputs=2)
    data, update = floats(4, 3), floats(3, 3)
    cases.add("scatter_nd_last", "ScatterND", [data, numpy.array([[1], [3], [1]], numpy.int64), update], constants=[1])
    cases.add("scatter_nd_int", "ScatterND", [(data * 9).astype(numpy.int32), listed(2, -1).reshape(2, 1),
                                              (update[:2] * 9).astype(numpy.int32)])
    cases.add("scatter_elements_add_int", "ScatterElements",
              [(data * 9).astype(numpy.int32), listed(0, 0, -1).reshape(1, 3), (update[:1] * 9).astype(numpy.int32)],
              reduction="add", opset=18)
    cases.add("gather_nd_batch", "GatherND", [floats(2, 3, 4), listed(1, 0, -1, 2).reshape(2, 2)], batch_dims=1)
    cases.add("gather_nd_two_batches", "GatherND", [floats(2, 3, 4), listed(1, 0, -1, 2, 3, 0).reshape(2, 3, 1)],
              batch_dims=2)
    cases.add("cumsum_all", "CumSum", [floats(3, 4), numpy.array(-1, numpy.int64)], constants=[1], exclusive=1,
              reverse=1)
    cases.add("non_zero", "NonZero", [numpy.array([[0, 2], [1, 0], [3, 3]], numpy.float32)], constants=[0])


def resizing(cases):
    x, empty = floats(1, 2, 4, 6), numpy.zeros(0, numpy.float32)
    for mode in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        for interpolation in ("nearest", "linear"):
            cases.add(f"resize_{mode}_{interpolation}", "Resize",
                      [x, None, None, listed(1, 2, 7, 3)], constants=[3], mode=interpolation,
                      coordinate_transformation_mode=mode)
    scales = numpy.array([1, 1, 2, 0.6], numpy.float32)
    cases.add("resize_10", "Resize", [x, scales], constants=[1], opset=10)
    cases.add("resize_11_roi", "Resize", [x, empty, scales], constants=[1, 2], opset=11)
    cases.add("resize_11_tf_half", "Resize", [x, empty, scales], constants=[1, 2], opset=11, nearest_mode="floor",
              coordinate_transformation_mode="tf_half_pixel_for_nn")
    cases.add("upsample_9", "Upsample", [x, numpy.array([1, 1, 2, 3], numpy.float32)], constants=[1], opset=9)
    cases.add("upsample_7", "Upsample", [x], opset=7, scales=[1.0, 1.0, 2.0, 1.5])


def parts(values):
    return numpy.stack([values.real, values.imag], -1)


def transforms(cases):
    for n in (7, 8):
        x = floats(2, n, 1)
        cases.add(f"dft_real_{n}", "DFT", [x])
        cases.replace(f"dft_real_{n}", parts(numpy.fft.fft(x[..., 0].astype(float))))
        cases.add(f"dft_onesided_{n}", "DFT", [x], onesided=1)
        cases.replace(f"dft_onesided_{n}", parts(numpy.fft.rfft(x[..., 0].astype(float))))
        x = floats(2, n, 2)
        cases.add(f"dft_inverse_{n}", "DFT", [x], inverse=1)
        cases.replace(f"dft_inverse_{n}", parts(numpy.fft.ifft(x[..., 0].astype(float) + 1j * x[..., 1])))
    x = floats(1, 5, 1)
    cases.add("dft_padded", "DFT", [x, numpy.array(8, numpy.int64)], constants=[1])
    cases.replace("dft_padded", parts(numpy.fft.fft(x[..., 0].astype(float), 8)))
    x, window = floats(2, 20, 1), numpy.abs(floats(8))
    frames = numpy.stack([x[:, at:at + 8, 0].astype(float) * window for at in range(0, 13, 3)], 1)
    for onesided, function in ((0, numpy.fft.fft), (1, numpy.fft.rfft)):
        cases.add(f"stft_{onesided}", "STFT", [x, numpy.array(3, numpy.int64), window, numpy.array(8, numpy.int64)],
                  constants=[1, 3], onesided=onesided)
        cases.replace(f"stft_{onesided}", parts(function(frames)))


def branches(cases):
    """The pattern of silero-vad: a condition computed from a shape selects a branch whose shape differs."""
    x = floats(2, 5)
    branch = lambda name, node: helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=node.output[0])])
    nodes = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "one"], ["width"]),
             helper.make_node("Equal", ["width", "five"], ["is_five"]),
             helper.make_node("If", ["is_five"], ["y"],
                              then_branch=branch("yes", helper.make_node("Transpose", ["x"], ["a"])),
                              else_branch=branch("no", helper.make_node("Neg", ["x"], ["b"])))]
    values = {"x": x, "one": numpy.array(1, numpy.int64), "five": numpy.array(5, numpy.int64)}
    cases.run("if_of_shape", nodes, values, ["one", "five"], ["y"], 16)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    cases = Cases()
    for group in (activations, normalization, quantized, dynamic_lstms, padding, indexing, resizing, transforms,
                  branches):
        group(cases)
    write(options.out, cases.tensors, {"onnx": f"runtime {onnxruntime.__version__}", "left_out": "{}"})
    print(f"{len(cases.names)} cases")


if __name__ == "__main__":
    main()
