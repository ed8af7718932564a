#pragma once
// Limits and waivers of a job as a budget file writes them.

#include "integrations/ci/budget_job.h"
#include "integrations/formats/yaml_fields.h"

namespace tidemark::ci {

/// `limits: [{ranks: first, phase: backward, at_most: 50GiB, near: 1GiB}]`. Mistakes go to the document.
void read_limits(formats::YamlDocument& document, formats::YamlMap& map, BudgetJob& job);

/// `waivers: [{owner: a@b.c, reason: text, expires: 2026-12-31, at_most: 62GiB}]`. Mistakes go to the document.
void read_waivers(formats::YamlDocument& document, formats::YamlMap& map, BudgetJob& job);

}  // namespace tidemark::ci
