/* A program against the installed package: checks a plan and runs its first rank on a simulated device.
 * How it is built and run is in docs/c_api.md; the test c_api.consumer does it with the lines given there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <tidemark/tidemark.h>

/* Says what went wrong, frees it, and is the exit status. */
static int fail(const char* what, tidemark_error* error) {
  fprintf(stderr, "%s: %s: %s\n", what, tidemark_status_name(tidemark_error_status(error)),
          tidemark_error_message(error));
  tidemark_error_free(error);
  return 1;
}

static int check_budget(const tidemark_plan* plan) {
  tidemark_error* error = NULL;
  tidemark_budget_result result = {.struct_size = sizeof result};
  if (tidemark_plan_check_budget(plan, NULL, &result, &error) != TIDEMARK_STATUS_OK) return fail("budget", error);
  printf("planned peak %" PRId64 " of %" PRId64 " bytes: %s\n", result.peak_bytes, result.budget_bytes,
         result.verdict == TIDEMARK_BUDGET_FAIL ? "too much" : "fits");
  return result.verdict == TIDEMARK_BUDGET_FAIL;
}

static int run_first_rank(const tidemark_plan* plan) {
  tidemark_error* error = NULL;
  tidemark_device* device = NULL;
  tidemark_run_options options = {.struct_size = sizeof options, .verify = 1};
  tidemark_run_report report = {.struct_size = sizeof report};
  if (tidemark_device_open("sim", NULL, &device, &error) != TIDEMARK_STATUS_OK) return fail("device", error);
  if (tidemark_plan_run_rank(plan, 0, device, &options, &report, &error) != TIDEMARK_STATUS_OK) {
    tidemark_device_close(device);
    return fail("run", error);
  }
  printf("rank %d: %" PRId64 " tasks, peak %" PRId64 " bytes, %.3f ms (%s), %" PRId64 " wrong reads\n", report.rank,
         report.tasks, report.peak_bytes, (double)report.step_ns / 1e6, report.simulated ? "simulated" : "measured",
         report.mismatches);
  tidemark_device_close(device);
  return report.mismatches != 0;
}

int main(int argc, char** argv) {
  tidemark_error* error = NULL;
  tidemark_plan* plan = NULL;
  int status;
  if (argc != 2) {
    fprintf(stderr, "usage: consumer PLAN\n");
    return 2;
  }
  if (tidemark_abi_version() != TIDEMARK_ABI_VERSION) {
    fprintf(stderr, "built for another version of the interface\n");
    return 1;
  }
  if (tidemark_plan_read(argv[1], &plan, &error) != TIDEMARK_STATUS_OK) return fail("plan", error);
  status = check_budget(plan);
  if (status == 0) status = run_first_rank(plan);
  tidemark_plan_free(plan);
  return status;
}
