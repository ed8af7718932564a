#pragma once
// Runs PTX kernels on the CPU, one thread after the other, over host memory: just the instructions that ours use, and
// an exception for any other. Enough to test what a kernel computes without a GPU; it says nothing about speed or
// races. (Instructions after the PTX ISA, version 6.0.)

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tidemark {

class PtxKernel {
 public:
  /// The entry `name` of a module. Throws std::runtime_error on what it does not know.
  PtxKernel(const std::string& module, const std::string& name) {
    const std::size_t entry = module.find(".entry " + name + "(");
    if (entry == std::string::npos) throw std::runtime_error("no entry " + name);
    const std::size_t open = module.find('(', entry), close = module.find(')', open);
    read_parameters(module.substr(open + 1, close - open - 1));
    const std::size_t begin = module.find('{', close) + 1;
    read_body(module.substr(begin, module.find("\n}", begin) - begin));
  }

  [[nodiscard]] std::size_t parameter_count() const { return parameters_.size(); }

  /// REQUIRES: as many arguments as parameters, in their order.
  void run(const std::vector<std::uint64_t>& arguments, std::uint32_t blocks, std::uint32_t threads) const {
    for (std::uint32_t block = 0; block < blocks; ++block) {
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        Registers registers = {{"%ctaid.x", block}, {"%nctaid.x", blocks}, {"%tid.x", thread}, {"%ntid.x", threads}};
        for (std::size_t i = 0; i < parameters_.size(); ++i) registers["[" + parameters_[i] + "]"] = arguments.at(i);
        run_thread(registers);
      }
    }
  }

 private:
  using Registers = std::map<std::string, std::uint64_t>;
  struct Instruction {
    std::string guard;               ///< predicate register; empty: always
    std::vector<std::string> parts;  ///< operation, split at dots
    std::vector<std::string> operands;
  };

  static std::vector<std::string> split(const std::string& text, const std::string& separators) {
    std::vector<std::string> parts;
    std::size_t at = 0;
    while ((at = text.find_first_not_of(separators, at)) != std::string::npos) {
      const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
      parts.push_back(text.substr(at, end - at));
      at = end;
    }
    return parts;
  }

  void read_parameters(const std::string& text) {
    for (const std::string& parameter : split(text, ",")) parameters_.push_back(split(parameter, " \n").back());
  }

  void read_body(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> words = split(line, " ,;");
      if (words.empty() || words[0] == ".reg") continue;
      if (words[0].back() == ':') {
        labels_[words[0].substr(0, words[0].size() - 1)] = body_.size();
        continue;
      }
      Instruction instruction;
      std::size_t first = 0;
      if (words[0][0] == '@') instruction.guard = words[first++].substr(1);
      instruction.parts = split(words[first], ".");
      instruction.operands.assign(words.begin() + static_cast<std::ptrdiff_t>(first) + 1, words.end());
      body_.push_back(std::move(instruction));
    }
  }

  static std::uint64_t value(const Registers& registers, const std::string& operand) {
    if (operand == "%globaltimer") return ++clock_ns_;
    if (operand[0] != '%') return std::stoull(operand, nullptr, 0);
    const auto found = registers.find(operand);
    if (found == registers.end()) throw std::runtime_error("read before written: " + operand);
    return found->second;
  }

  /// `[%rd1+64]`
  static std::uint64_t address(const Registers& registers, const std::string& operand) {
    const std::vector<std::string> parts = split(operand, "[]+");
    return value(registers, parts.at(0)) + (parts.size() > 1 ? std::stoull(parts[1]) : 0);
  }

  static bool compare(const std::string& how, std::uint64_t a, std::uint64_t b) {
    if (how == "eq") return a == b;
    if (how == "ne") return a != b;
    if (how == "lt") return a < b;
    if (how == "ge") return a >= b;
    throw std::runtime_error("unknown comparison " + how);
  }

  static std::uint64_t load(std::uint64_t at, const std::string& type) {
    std::uint64_t word = 0;
    const std::size_t bytes = type == "u8" ? 1 : 8;
    if (at % bytes != 0) throw std::runtime_error("misaligned access");
    std::memcpy(&word, reinterpret_cast<const void*>(at), bytes);
    return word;
  }
  static void store(std::uint64_t at, const std::string& type, std::uint64_t word) {
    const std::size_t bytes = type == "u8" ? 1 : 8;
    if (at % bytes != 0) throw std::runtime_error("misaligned access");
    std::memcpy(reinterpret_cast<void*>(at), &word, bytes);
  }

  static std::uint64_t atomic(const Registers& registers, const Instruction& instruction) {
    const std::string& how = instruction.parts.at(2);
    const auto& operands = instruction.operands;
    const std::uint64_t at = address(registers, operands.at(1)), old = load(at, "u64");
    const std::uint64_t first = value(registers, operands.at(2));
    if (how == "exch")
      store(at, "u64", first);
    else if (how == "add")
      store(at, "u64", old + first);
    else if (how == "cas")
      store(at, "u64", old == first ? value(registers, operands.at(3)) : old);
    else
      throw std::runtime_error("unknown atomic " + how);
    return old;
  }

  /// What an instruction with a result register computes.
  static std::uint64_t result(const Registers& registers, const Instruction& instruction) {
    const auto& parts = instruction.parts;
    const auto& operands = instruction.operands;
    const std::string& op = parts[0];
    if (op == "atom") return atomic(registers, instruction);
    if (op == "ld" && parts.at(1) == "param") {
      const std::uint64_t whole = registers.at(operands.at(1));
      return parts.at(2) == "u32" ? static_cast<std::uint32_t>(whole) : whole;
    }
    if (op == "ld") return load(address(registers, operands.at(1)), parts.at(2));
    const std::uint64_t a = value(registers, operands.at(1));
    if (op == "mov" || op == "cvta" || op == "cvt") return a;
    const std::uint64_t b = value(registers, operands.at(2));
    const std::string& type = parts.back();
    if (op == "setp") return compare(parts.at(1), a, b) ? 1 : 0;
    if (op == "or") return a | b;
    if (op == "and") return a & b;
    if (op == "add") return a + b;
    if (op == "sub") return type == "u32" ? static_cast<std::uint32_t>(a - b) : a - b;
    if (op == "shl") return a << b;
    if (op == "shr") return a >> b;
    if (op == "mul") return parts.at(1) == "lo" || parts.at(1) == "wide" ? a * b : throw std::runtime_error("mul");
    if (op == "mad" && parts.at(1) == "wide") return a * b + value(registers, operands.at(3));
    throw std::runtime_error("unknown instruction " + op);
  }

  void run_thread(Registers& registers) const {
    for (std::size_t next = 0; next < body_.size();) {
      const Instruction& instruction = body_[next++];
      if (!instruction.guard.empty() && value(registers, instruction.guard) == 0) continue;
      const std::string& op = instruction.parts[0];
      if (op == "ret") return;
      if (op == "bra") {
        next = labels_.at(instruction.operands.at(0));
      } else if (op == "st") {
        store(address(registers, instruction.operands.at(0)), instruction.parts.at(2),
              value(registers, instruction.operands.at(1)));
      } else {
        registers[instruction.operands.at(0)] = result(registers, instruction);
      }
    }
    throw std::runtime_error("the kernel ran past its end");
  }

  inline static thread_local std::uint64_t clock_ns_ = 0;
  std::vector<std::string> parameters_;
  std::vector<Instruction> body_;
  std::map<std::string, std::size_t> labels_;
};

}  // namespace tidemark
