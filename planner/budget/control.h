#pragma once
// Where a person changes what a storage takes: a line of a file, with the key or flag on it.

#include <string>

namespace tidemark::budget {

struct Control {
  std::string file;  ///< as it was named; empty: no file says it (a default)
  int line = 0;      ///< from 1; 0: not known
  std::string text;  ///< in the words of that file: `model.layers: 61`, `--num-layers 61`
  friend bool operator==(const Control&, const Control&) = default;
};

}  // namespace tidemark::budget
