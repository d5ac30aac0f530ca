// SPDX-License-Identifier: Apache-2.0
// The class Value of layers.py: NumPy's operators and indices, and functions of arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "frontends/python/binding/arrays.h"
#include "frontends/python/network/layers.h"
#include "frontends/python/network/value.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

using Binary = Value (*)(Value, Value);
using Unary = Value (*)(Value);
using AxesArgument = std::optional<std::variant<std::int64_t, std::vector<std::int64_t>>>;

[[noreturn]] void refuse_index(const std::string& what, const Value& x) {
  throw Error(ErrorKind::shape, "layers", what + " does not fit " + x.type().text(),
              "Indices are numbers, slices, None, ... and one list of whole numbers");
}

// A number, array or value as the other operand of `like`. A number, and an array in f64, take the dtype of `like` if
// that holds them.
Value operand(const nb::object& object, const NetworkValue& like) {
  if (nb::isinstance<NetworkValue>(object)) return nb::cast<NetworkValue>(object).get_beside(like);
  const Value of = like.get();
  if (nb::isinstance<nb::bool_>(object)) return scalar(of.graph(), DType::b8, nb::cast<bool>(object) ? 1 : 0);
  if (nb::isinstance<nb::int_>(object) && of.dtype() != DType::b8) return scalar_like(of, nb::cast<double>(object));
  if (nb::isinstance<nb::float_>(object) && is_float(of.dtype())) return scalar_like(of, nb::cast<double>(object));
  if (nb::isinstance<nb::int_>(object)) return scalar(of.graph(), DType::i32, nb::cast<double>(object));
  if (nb::isinstance<nb::float_>(object)) return scalar(of.graph(), DType::f32, nb::cast<double>(object));
  Tensor tensor = tensor_of(object, "an operand");
  if (tensor.dtype() == DType::f64 && of.dtype() != DType::f64) tensor = tensor.cast(DType::f32);
  return constant(of.graph(), std::move(tensor));
}

// NumPy's common type, with f32 for mixtures of whole numbers and floats.
std::pair<Value, Value> promoted(Value a, Value b) {
  constexpr DType k_order[] = {DType::b8, DType::i32, DType::f16, DType::bf16, DType::f32, DType::f64};
  const auto place = [&](Value v) { return std::ranges::find(k_order, v.dtype()) - std::begin(k_order); };
  const DType common = k_order[std::max(place(a), place(b))];
  return {cast(a, common), cast(b, common)};
}
DType as_number(DType dtype) { return dtype == DType::b8 ? DType::i32 : dtype; }
Value as_floats(Value v) { return is_float(v.dtype()) ? v : cast(v, DType::f32); }

template <Binary function>
Value on_numbers(Value a, Value b) {
  std::tie(a, b) = promoted(a, b);
  return function(cast(a, as_number(a.dtype())), cast(b, as_number(b.dtype())));
}
Value divided(Value a, Value b) {
  std::tie(a, b) = promoted(a, b);
  return div(as_floats(a), as_floats(b));
}
Value raised(Value a, Value b) {
  std::tie(a, b) = promoted(a, b);
  return pow(as_floats(a), as_floats(b));
}
// @ of NumPy: a vector is a row on the left, and a column on the right.
Value product(Value a, Value b) {
  const bool is_row = a.rank() == 1, is_column = b.rank() == 1;
  if (is_row) a = reshape(a, {1, a.shape()[0]});
  if (is_column) b = reshape(b, {b.shape()[0], 1});
  if (a.rank() != b.rank()) {  // the leading axes of one repeat
    Value& less = a.rank() < b.rank() ? a : b;
    const Shape& more = a.rank() < b.rank() ? b.shape() : a.shape();
    std::vector<std::int64_t> shape(more.begin(), more.end() - 2);
    shape.insert(shape.end(), less.shape().end() - 2, less.shape().end());
    less = broadcast(less, Shape(shape));
  }
  Value y = matmul(a, b);
  if (is_column) y = squeeze(y, -1);
  return is_row ? squeeze(y, is_column ? -1 : -2) : y;
}
template <Binary function>
Value on_truths(Value a, Value b) {
  if (a.dtype() != DType::b8 || b.dtype() != DType::b8)
    throw Error(ErrorKind::type, "layers", "&, | and ~ are for bool values", "Compare first: (x > 0) & (x < 1)");
  return function(a, b);
}

template <Binary function>
NetworkValue forward(const NetworkValue& a, const nb::object& b) {
  return a.with(function(a.get(), operand(b, a)));
}
template <Binary function>
NetworkValue backward(const NetworkValue& b, const nb::object& a) {
  return b.with(function(operand(a, b), b.get()));
}
// A number as exponent keeps the sign of whole powers.
NetworkValue power(const NetworkValue& a, const nb::object& b) {
  const bool is_number = nb::isinstance<nb::int_>(b) || nb::isinstance<nb::float_>(b);
  return a.with(is_number ? pow(as_floats(a.get()), nb::cast<double>(b)) : raised(a.get(), operand(b, a)));
}
template <Unary function>
NetworkValue each(const NetworkValue& x) {
  return x.with(function(x.get()));
}
template <Unary function>
NetworkValue of_floats(const NetworkValue& x) {
  return x.with(function(as_floats(x.get())));
}

Axes axes_of(const AxesArgument& axis) {
  if (!axis) return {};
  if (const auto* one = std::get_if<std::int64_t>(&*axis)) return Axes(static_cast<int>(*one));
  return Axes(Ints(std::get<std::vector<std::int64_t>>(*axis)));
}
using Reduction = Value (*)(Value, const Axes&, bool);
template <Reduction function, bool in_floats>
NetworkValue reduced(const NetworkValue& x, const AxesArgument& axis, bool keepdims) {
  const Value value = cast(x.get(), as_number(x.get().dtype()));
  return x.with(function(in_floats ? as_floats(value) : value, axes_of(axis), keepdims));
}

// Elements of an axis by their indices, which need not be in order.
Value taken(Value x, int axis, Value indices) {
  const Value front = moved_axis(x, axis, 0);
  const std::int64_t n = front.shape()[0], rest = x.shape().elements() / std::max<std::int64_t>(n, 1);
  const Value rows = gather(reshape(front, {n, rest}), indices);
  return moved_axis(reshape(rows, front.shape().with(0, indices.shape().elements())), 0, axis);
}
Value taken(Value x, int axis, const std::vector<std::int64_t>& indices) {
  Tensor tensor(DType::i32, {std::ssize(indices)});
  for (std::int64_t k = 0; k < std::ssize(indices); ++k) tensor.set(k, static_cast<double>(indices[k]));
  return taken(x, axis, constant(x.graph(), std::move(tensor)));
}

// x[...] of NumPy.
class Indexed {
 public:
  explicit Indexed(Value x) : x_(x) {}
  Value run(const nb::object& index) {
    std::vector<nb::object> items;
    if (nb::isinstance<nb::tuple>(index))
      for (const nb::handle item : nb::cast<nb::tuple>(index)) items.push_back(nb::borrow(item));
    else items.push_back(index);
    const auto is_axis = [](const nb::object& item) { return !item.is_none() && !item.is(nb::ellipsis()); };
    const auto used = std::ranges::count_if(items, is_axis);
    if (used > x_.rank()) refuse_index("an index of " + std::to_string(used) + " axes", x_);
    for (const nb::object& item : items) {
      if (item.is_none()) shape_.push_back(1);
      else if (item.is(nb::ellipsis())) keep(x_.rank() - axis_ - remaining(items, item));
      else apply(item);
    }
    keep(x_.rank() - axis_);
    return reshape(x_, Shape(shape_));
  }

 private:
  static int remaining(const std::vector<nb::object>& items, const nb::object& from) {
    int n = 0;
    for (const nb::object* item = &from + 1; item < items.data() + items.size(); ++item) n += !item->is_none();
    return n;
  }
  void keep(int axes) {
    for (int k = 0; k < axes; ++k) shape_.push_back(x_.shape()[axis_++]);
  }
  void apply(const nb::object& item) {
    const std::int64_t n = x_.shape()[axis_];
    if (nb::isinstance<nb::slice>(item)) {
      const std::size_t length = n;
      const auto [start, stop, step, count] = nb::cast<nb::slice>(item).compute(length);
      std::vector<std::int64_t> indices;
      for (std::size_t k = 0; k < count; ++k) indices.push_back(start + static_cast<std::int64_t>(k) * step);
      x_ = step == 1 || count == 0 ? slice(x_, axis_, count == 0 ? 0 : start, static_cast<std::int64_t>(count))
                                   : taken(x_, axis_, indices);
      return keep(1);
    }
    if (const auto number = whole_number(item)) {
      const std::int64_t k = *number;
      if (k < -n || k >= n) throw nb::index_error("out of range");
      x_ = slice(x_, axis_, k < 0 ? k + n : k, 1);
      ++axis_;  // without a place in the shape
      return;
    }
    std::vector<std::int64_t> indices;
    if (!nb::try_cast(nb::module_::import_("builtins").attr("list")(item), indices))
      refuse_index("an index of " + std::string(nb::type_name(item.type()).c_str()), x_);
    for (std::int64_t& k : indices) {
      if (k < -n || k >= n) throw nb::index_error("out of range");
      k += k < 0 ? n : 0;
    }
    x_ = taken(x_, axis_, indices);
    keep(1);
  }

  static std::optional<std::int64_t> whole_number(const nb::object& item) {
    try {
      return nb::cast<std::int64_t>(nb::module_::import_("operator").attr("index")(item));
    } catch (nb::python_error&) {
      return std::nullopt;
    }
  }

  Value x_;
  int axis_ = 0;  // of x_, the next one
  std::vector<std::int64_t> shape_;
};

NetworkValue indexed(const NetworkValue& x, const nb::object& index) { return x.with(Indexed(x.get()).run(index)); }

template <class Class>
void add_operators(Class& value) {
  value.attr("__array_ufunc__") = nb::none();  // NumPy leaves operators to this class
  value.def("__pos__", [](const NetworkValue& v) { return v; }).def("__neg__", each<neg>);
  value.def("__abs__", each<abs>).def("__invert__", each<logical_not>).def("__pow__", power, "other"_a.none());
  struct Operator {
    const char* name;
    NetworkValue (*call)(const NetworkValue& value, const nb::object& other);
  };
  for (const Operator& row : std::initializer_list<Operator>{
           {"__add__", forward<on_numbers<add>>}, {"__radd__", backward<on_numbers<add>>},
           {"__sub__", forward<on_numbers<sub>>}, {"__rsub__", backward<on_numbers<sub>>},
           {"__mul__", forward<on_numbers<mul>>}, {"__rmul__", backward<on_numbers<mul>>},
           {"__truediv__", forward<divided>}, {"__rtruediv__", backward<divided>},
           {"__matmul__", forward<on_numbers<product>>}, {"__rmatmul__", backward<on_numbers<product>>},
           {"__rpow__", backward<raised>},
           {"__lt__", forward<on_numbers<less>>}, {"__le__", forward<on_numbers<less_equal>>},
           {"__gt__", forward<on_numbers<greater>>}, {"__ge__", forward<on_numbers<greater_equal>>},
           {"__eq__", forward<on_numbers<equal>>}, {"__ne__", forward<on_numbers<not_equal>>},
           {"__and__", forward<on_truths<logical_and>>}, {"__or__", forward<on_truths<logical_or>>}})
    value.def(row.name, row.call, "other"_a.none());
  value.def("__hash__", [](const NetworkValue& v) { return v.get().id().node; });
}

void add_reductions(nb::module_& module) {
  const auto add = [&](const char* name, auto function, const char* doc) {
    module.def(name, function, "x"_a, "axis"_a = nb::none(), "keepdims"_a = false, doc);
  };
  add("sum", reduced<sum, false>, "Sum over an axis, several, or all. With keepdims they keep the size 1.");
  add("mean", reduced<mean, true>, "Mean over an axis, several, or all. Of true and false: the share that is true.");
  add("max", reduced<max, false>, "Largest value over an axis, several, or all.");
  add("min", reduced<min, false>, "Smallest value over an axis, several, or all.");
  module.def("cumsum", [](const NetworkValue& x, int axis) { return x.with(cumsum(x.get(), axis)); }, "x"_a, "axis"_a,
             "Sums of the elements up to each one of an axis.");
}

void add_more(nb::module_& module) {
  module.def("matmul", forward<on_numbers<product>>, "a"_a, "b"_a,
             "Matrix product [..., M, K] x [..., K, N], as the operator @.");
  module.def("sign", each<sign>, "x"_a).def("log1p", of_floats<log1p>, "x"_a).def("expm1", of_floats<expm1>, "x"_a);
  module.def("erf", of_floats<erf>, "x"_a).def("softplus", of_floats<softplus>, "x"_a);
  module.def("stop_gradient", each<stop_gradient>, "x"_a, "x, through which no gradient passes.");
  module.def("clip", [](const NetworkValue& x, double low, double high) {
    return x.with(clip(x.get(), low, high));
  }, "x"_a, "low"_a, "high"_a, "x, at least low and at most high.");
  module.def("one_hot", [](const NetworkValue& ids, std::int64_t classes) {
    return ids.with(one_hot(ids.get(), classes));
  }, "ids"_a, "classes"_a, "int32 [...] -> float32 [..., classes]: 1 at the index, else 0.");
  module.def("stack", [](const std::vector<NetworkValue>& parts, int axis) {
    if (parts.empty()) throw Error(ErrorKind::usage, "layers.stack", "there are no parts");
    std::vector<Value> values;
    const int rank = parts[0].get().rank() + 1, at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) refuse_index("axis " + std::to_string(axis), parts[0].get());
    for (const NetworkValue& part : parts) {
      std::vector<std::int64_t> shape(part.get().shape().begin(), part.get().shape().end());
      shape.insert(shape.begin() + std::min<std::ptrdiff_t>(at, std::ssize(shape)), 1);
      values.push_back(reshape(part.get_beside(parts[0]), Shape(shape)));
    }
    return parts[0].with(concat(values, at));
  }, "parts"_a, "axis"_a = 0, "Parts of equal shape along a new axis.");
  module.def("astype", [](const NetworkValue& x, const std::string& dtype) {
    constexpr std::pair<std::string_view, DType> k_names[] = {
        {"float32", DType::f32}, {"float64", DType::f64}, {"int32", DType::i32}, {"bool", DType::b8}};
    const auto* const row = std::ranges::find(k_names, dtype, &std::pair<std::string_view, DType>::first);
    if (row == std::end(k_names))
      throw Error(ErrorKind::type, "layers.astype", "'" + dtype + "' is none of float32, float64, int32 and bool");
    return x.with(cast(x.get(), row->second));
  }, "x"_a, "dtype"_a, "x as float32, float64, int32 or bool.");
}

}  // namespace

void add_value(nb::module_& module) {
  nb::class_<NetworkValue> value(module, "Value",
                                 "A value of a network while a function builds it. Its shape is known. Operators, "
                                 "indices and broadcasting are NumPy's; arrays and numbers may be operands.");
  value.def_prop_ro("shape", [](const NetworkValue& v) {
    nb::list dims;
    for (const std::int64_t d : v.get().shape()) dims.append(d);
    return nb::tuple(dims);
  });
  value.def_prop_ro("ndim", [](const NetworkValue& v) { return v.get().rank(); });
  value.def_prop_ro("dtype", [](const NetworkValue& v) { return std::string(dtype_name(v.get().dtype())); });
  value.def_prop_ro("T", [](const NetworkValue& v) {
    Ints order;
    for (int k = v.get().rank(); k-- > 0;) order.push_back(k);
    return v.with(transpose(v.get(), order));
  });
  value.def("__len__", [](const NetworkValue& v) {
    if (v.get().rank() == 0) throw nb::type_error("a scalar has no length");
    return v.get().shape()[0];
  });
  value.def("__repr__", [](const NetworkValue& v) { return "unroll.layers.Value " + v.get().type().text(); });
  value.def("__getitem__", indexed, "index"_a.none(),
            "As in NumPy: numbers, slices, None, ... and one list of numbers.");
  add_operators(value);
}

void add_arithmetic(nb::module_& module) {
  add_reductions(module);
  add_more(module);
}

}  // namespace unroll::python
