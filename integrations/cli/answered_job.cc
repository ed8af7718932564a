#include "integrations/cli/answered_job.h"

namespace tidemark::cli {

Result<AnsweredJob> answer(const JobFile& file, const Console& console) {
  switch (file.kind) {
    case ci::JobKind::model:
      return answer_model(file, console);
    case ci::JobKind::plan:
      return answer_plan(file, console);
    case ci::JobKind::script:
    case ci::JobKind::bridge:
    case ci::JobKind::torchtitan:
    case ci::JobKind::mindformers:
      return answer_arguments(file, console);
    case ci::JobKind::measured:
      break;
  }
  return answer_measured(file, console);
}

std::filesystem::path subject_of(const JobFile& file) {
  return file.measured.empty() ? subject_of(file.options) : file.measured;
}

}  // namespace tidemark::cli
