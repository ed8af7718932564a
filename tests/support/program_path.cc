#include "tests/support/program_path.h"

namespace tidemark::testing {

std::string program_path() {
  return TIDEMARK_PROGRAM;
}

}  // namespace tidemark::testing
