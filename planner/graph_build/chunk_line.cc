#include "planner/graph_build/chunk_line.h"

namespace tidemark::graph_build {
namespace {

std::int32_t number(StorageId id) {
  return static_cast<std::int32_t>(id);
}

std::int32_t& base_of(Binding& binding, Scope scope) {
  return binding.base[static_cast<std::size_t>(scope)];
}

std::int32_t local(const ChunkLine& line, std::int32_t micro_batch, std::int32_t element, std::int32_t position) {
  return number(line.storage(micro_batch, line.storage_offset[static_cast<std::size_t>(element)])) + position;
}

std::int32_t input_of(const ChunkLine& line, std::int32_t micro_batch, std::int32_t element) {
  return local(line, micro_batch, element, line.elements[static_cast<std::size_t>(element)].block->input);
}

std::int32_t gradient_of(const ChunkLine& line, std::int32_t micro_batch, std::int32_t element) {
  return local(line, micro_batch, element, line.elements[static_cast<std::size_t>(element)].block->output_gradient);
}

}  // namespace

StorageId ChunkLine::sent_activation(std::int32_t micro_batch) const {
  if (activation_buffer >= 0) return storage(micro_batch, activation_buffer);
  return static_cast<StorageId>(input_of(*this, micro_batch, trunk_end));
}

std::int32_t ChunkLine::trunk_gradient_writes() const {
  const auto size = static_cast<std::int32_t>(elements.size());
  if (trunk_end == size) return 1;
  const bool has_mtp = elements[static_cast<std::size_t>(trunk_end)].kind == Element::Kind::mtp;
  const bool has_head = elements.back().kind == Element::Kind::head;
  return (has_mtp ? 1 : 0) + (has_head ? 1 : 0) + (sends_head_input ? 1 : 0);
}

StorageId ChunkLines::entry_activation(std::int32_t chunk, std::int32_t micro_batch) const {
  const ChunkLine& line = at(chunk);
  if (!line.elements.empty()) return static_cast<StorageId>(input_of(line, micro_batch, 0));
  if (alone_) return entry_activation(chunk + 1, micro_batch);
  return line.storage(micro_batch, line.activation_buffer);
}

StorageId ChunkLines::exit_gradient(std::int32_t chunk, std::int32_t micro_batch) const {
  const ChunkLine& line = at(chunk);
  // REQUIRES of the job: a head that the last stage does not have lies behind a layer.
  if (!line.elements.empty()) {
    const auto size = static_cast<std::int32_t>(line.elements.size());
    return static_cast<StorageId>(
        gradient_of(line, micro_batch, line.sends_head_input ? line.trunk_end - 1 : size - 1));
  }
  if (alone_) return exit_gradient(chunk - 1, micro_batch);
  return line.storage(micro_batch, line.gradient_buffer);
}

std::int32_t ChunkLines::gradient_writes(std::int32_t chunk) const {
  const ChunkLine& line = at(chunk);
  if (line.elements.empty()) return alone_ ? gradient_writes(chunk + 1) : 1;
  return line.trunk_end == 0 ? line.trunk_gradient_writes() : 1;
}

std::int32_t ChunkLines::exit_activation(std::int32_t chunk, std::int32_t micro_batch) const {
  const ChunkLine& line = at(chunk);
  if (line.activation_buffer >= 0) return number(line.storage(micro_batch, line.activation_buffer));
  return alone_ && chunk + 1 < count() ? number(entry_activation(chunk + 1, micro_batch)) : -1;
}

std::int32_t ChunkLines::entry_gradient(std::int32_t chunk, std::int32_t micro_batch) const {
  const ChunkLine& line = at(chunk);
  if (line.gradient_buffer >= 0) return number(line.storage(micro_batch, line.gradient_buffer));
  return alone_ && chunk > 0 ? number(exit_gradient(chunk - 1, micro_batch)) : -1;
}

void ChunkLines::bind_trunk(std::int32_t chunk, std::int32_t micro_batch, std::vector<Binding>& bindings) const {
  const ChunkLine& line = at(chunk);
  const auto size = static_cast<std::int32_t>(line.elements.size());
  for (std::int32_t e = 0; e < line.trunk_end; ++e) {
    Binding& binding = bindings[static_cast<std::size_t>(e)];
    const bool leaves = e + 1 == size;
    base_of(binding, Scope::output) = leaves ? exit_activation(chunk, micro_batch) : input_of(line, micro_batch, e + 1);
    base_of(binding, Scope::input_gradient) =
        e == 0 ? entry_gradient(chunk, micro_batch) : gradient_of(line, micro_batch, e - 1);
    if (e + 1 < line.trunk_end) continue;
    if (leaves) {
      binding.final_version = alone_ && chunk + 1 < count() ? gradient_writes(chunk + 1) : 1;
    } else {
      binding.final_version = line.trunk_gradient_writes();
    }
  }
}

void ChunkLines::bind_tail(std::int32_t chunk, std::int32_t micro_batch, std::vector<Binding>& bindings) const {
  const ChunkLine& line = at(chunk);
  const auto size = static_cast<std::int32_t>(line.elements.size());
  if (line.trunk_end == size) return;
  const std::int32_t trunk = input_of(line, micro_batch, line.trunk_end);
  const std::int32_t trunk_gradient =
      line.trunk_end > 0 ? gradient_of(line, micro_batch, line.trunk_end - 1) : entry_gradient(chunk, micro_batch);
  for (std::int32_t e = line.trunk_end; e < size; ++e) {
    Binding& binding = bindings[static_cast<std::size_t>(e)];
    const bool later_module =
        e > line.trunk_end && line.elements[static_cast<std::size_t>(e)].kind == Element::Kind::mtp;
    base_of(binding, Scope::input) = trunk;
    base_of(binding, Scope::input_gradient) = trunk_gradient;
    if (later_module) {
      const std::int32_t result = line.elements[static_cast<std::size_t>(e - 1)].block->result;
      base_of(binding, Scope::input) = local(line, micro_batch, e - 1, result);
      base_of(binding, Scope::input_gradient) = gradient_of(line, micro_batch, e - 1);
    }
    const bool feeds_module = e + 1 < size && line.elements[static_cast<std::size_t>(e + 1)].kind == Element::Kind::mtp;
    binding.final_version = feeds_module ? 2 : 1;
  }
}

void ChunkLines::bind(std::int32_t chunk, std::int32_t micro_batch, std::vector<Binding>& bindings) const {
  const ChunkLine& line = at(chunk);
  const auto size = static_cast<std::int32_t>(line.elements.size());
  bindings.assign(line.elements.size(), Binding{});
  for (std::int32_t e = 0; e < size; ++e) {
    const Element& element = line.elements[static_cast<std::size_t>(e)];
    Binding& binding = bindings[static_cast<std::size_t>(e)];
    binding.base.fill(-1);
    binding.site = line.site(micro_batch, e);
    base_of(binding, Scope::own) = local(line, micro_batch, e, 0);
    base_of(binding, Scope::parameters) = number(element.parameters);
    base_of(binding, Scope::embedding_parameters) = number(element.embedding_parameters);
    base_of(binding, Scope::head_parameters) = number(element.head_parameters);
    base_of(binding, Scope::output_gradient) =
        element.block->output_gradient >= 0 ? gradient_of(line, micro_batch, e) : -1;
  }
  bind_trunk(chunk, micro_batch, bindings);
  bind_tail(chunk, micro_batch, bindings);
}

}  // namespace tidemark::graph_build
