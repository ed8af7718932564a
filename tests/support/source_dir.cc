#include "tests/support/source_dir.h"

namespace tidemark::testing {

std::string source_dir() {
  return TIDEMARK_SOURCE_DIR;
}

}  // namespace tidemark::testing
