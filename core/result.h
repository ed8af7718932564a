#pragma once
// Failures as values. Three channels (STYLE): a bug asserts, bad input or environment is an Error, an expected outcome
// is a plain enum or an empty optional. Nothing in core, planner or policies throws across its own interface.

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace tidemark {

/// What went wrong, in one line for a person. `code` decides the exit status of the command line.
struct Error {
  enum class Code {
    bad_input,   ///< exit 2: usage or input is wrong; `message` says what, where and what would be right
    infeasible,  ///< exit 1: the question was understood and the answer is no
    internal,    ///< exit 3: a fault in Tidemark
  };
  Code code = Code::bad_input;
  std::string message;
};

[[nodiscard]] inline Error bad_input(std::string message) {
  return {Error::Code::bad_input, std::move(message)};
}
[[nodiscard]] inline Error infeasible(std::string message) {
  return {Error::Code::infeasible, std::move(message)};
}
[[nodiscard]] inline Error internal_fault(std::string message) {
  return {Error::Code::internal, std::move(message)};
}

/// A value or an Error. Reading the value of a failed result is a bug and asserts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const T& value() const& {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] T& value() & {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] T&& value() && {
    assert(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  [[nodiscard]] const Error& error() const {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), failed_(true) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const {
    assert(failed_);
    return error_;
  }

 private:
  Error error_;
  bool failed_ = false;
};

using Status = Result<void>;

}  // namespace tidemark
