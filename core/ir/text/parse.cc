// SPDX-License-Identifier: Apache-2.0
// Parses graph text. Every node goes through Graph::append, so the result is valid. The text is untrusted: nesting,
// counts and memory are limited.
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/text/text_reader.h"
#include "core/ir/verify.h"
#include "unroll/ir/graph.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_max_nodes = 1'000'000;
constexpr std::int64_t k_max_names = 16'384;           // inputs and outputs: names are looked up one by one
constexpr std::int64_t k_max_elements = 16'777'216;    // of all constants together

class Parser {
 public:
  explicit Parser(std::string_view text) : reader_(text) {}

  std::shared_ptr<Graph> parse() {
    reader_.expect("graph");
    auto graph = graph_in_braces(0);
    if (!reader_.at_end()) reader_.fail("expected the end of the text");
    verify(*graph);
    return graph;
  }
  [[noreturn]] void fail(const std::string& what) const { reader_.fail(what); }

 private:
  using Numbering = std::unordered_map<std::int64_t, std::vector<Value>>;  // the outputs of node %n

  std::shared_ptr<Graph> graph_in_braces(int depth) {
    if (depth > k_max_depth) fail("bodies are nested deeper than " + std::to_string(k_max_depth));
    auto graph = std::make_shared<Graph>();
    Numbering numbering;
    reader_.expect("{");
    while (!reader_.accept("}")) {
      if (reader_.accept("output"))
        output(*graph, numbering);
      else
        node(*graph, numbering, depth);
    }
    return graph;
  }

  // output "name" = %3.1
  void output(Graph& graph, const Numbering& numbering) {
    std::string name = reader_.string();
    reader_.expect("=");
    const Value result = value(numbering);
    count_name();
    graph.output(std::move(name), result);
  }

  // %3 = op(%1, %2.1){a=1} body { ... } : f32[2], f32[3]
  void node(Graph& graph, Numbering& numbering, int depth) {
    reader_.expect("%");
    const std::size_t start = reader_.token();
    const std::int64_t number = reader_.integer();
    if (numbering.count(number) > 0) fail("%" + std::to_string(number) + " is defined twice");
    if (++n_nodes_ > k_max_nodes) fail("more than " + std::to_string(k_max_nodes) + " nodes");
    reader_.expect("=");
    const std::string_view name = reader_.word();
    const OpInfo* info = find_op(name);
    if (!info) fail("unknown op '" + std::string(name) + "'");
    const std::vector<Value> inputs = operands(numbering);
    Attributes attributes = attribute_list();
    std::shared_ptr<const Graph> body;
    if (reader_.accept("body")) body = graph_in_braces(depth + 1);
    const std::vector<Type> types = type_list();
    reader_.point_at(start);
    numbering[number] = info->op == Op::input ? std::vector<Value>{input(graph, inputs, attributes, types)}
                                              : graph.append(info->op, inputs, std::move(attributes), std::move(body));
    check_types(numbering[number], types);
  }

  // An input node has its type only here: name is its one attribute.
  Value input(Graph& graph, const std::vector<Value>& inputs, const Attributes& attributes,
              const std::vector<Type>& types) {
    if (!inputs.empty() || attributes.all().size() != 1 || types.size() != 1)
      fail("an input is written input(){name=\"...\"} : type");
    count_name();
    return graph.input(attributes.get<std::string>("name"), types[0]);
  }

  Value value(const Numbering& numbering) {
    reader_.expect("%");
    // "3.1" reads as one number token.
    const std::size_t start = reader_.token();
    const std::string_view token = reader_.number();
    reader_.point_at(start);
    const std::size_t dot = token.find('.');
    const std::int64_t number = index(token.substr(0, dot));
    const auto at = numbering.find(number);
    if (at == numbering.end()) fail("%" + std::to_string(number) + " is not defined above");
    const std::int64_t output = dot == std::string_view::npos ? 0 : index(token.substr(dot + 1));
    const auto n_outputs = static_cast<std::int64_t>(at->second.size());
    if (output >= n_outputs || (dot == std::string_view::npos && n_outputs != 1))
      fail("%" + std::string(token) + " names no output: the node has " + std::to_string(n_outputs));
    return at->second[output];
  }

  std::int64_t index(std::string_view digits) const {
    constexpr std::size_t k_longest = 18;  // below 2^63
    if (digits.empty() || digits.size() > k_longest || digits.find_first_not_of("0123456789") != std::string_view::npos)
      fail("a value is written %n or %n.k");
    return std::stoll(std::string(digits));
  }

  std::vector<Value> operands(const Numbering& numbering) {
    std::vector<Value> list;
    reader_.expect("(");
    if (reader_.accept(")")) return list;
    do list.push_back(value(numbering));
    while (reader_.accept(","));
    reader_.expect(")");
    return list;
  }

  Attributes attribute_list() {
    Attributes list;
    if (!reader_.accept("{")) return list;
    do {
      std::string name(reader_.word());
      if (list.has(name)) fail("attribute '" + name + "' is given twice");
      reader_.expect("=");
      list.set(std::move(name), reader_.attribute(elements_left_));
    } while (reader_.accept(","));
    reader_.expect("}");
    return list;
  }

  std::vector<Type> type_list() {
    std::vector<Type> list;
    if (!reader_.accept(":")) return list;
    do list.push_back(reader_.type());
    while (reader_.accept(","));
    return list;
  }

  void check_types(const std::vector<Value>& values, const std::vector<Type>& written) const {
    if (values.size() != written.size())
      fail("the node has " + std::to_string(values.size()) + " outputs; the text gives types for " +
           std::to_string(written.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i].type() != written[i])
        fail("output " + std::to_string(i) + " is " + values[i].type().text() + "; the text says " + written[i].text());
  }

  void count_name() {
    if (++n_names_ > k_max_names) fail("more than " + std::to_string(k_max_names) + " inputs and outputs");
  }

  TextReader reader_;
  std::int64_t n_nodes_ = 0;
  std::int64_t n_names_ = 0;
  std::int64_t elements_left_ = k_max_elements;
};

}  // namespace

std::shared_ptr<Graph> parse_graph(std::string_view text) {
  Parser parser(text);
  try {
    return parser.parse();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::input_file || error.kind() == ErrorKind::memory) throw;
    parser.fail(error.what());
  }
}

}  // namespace unroll
