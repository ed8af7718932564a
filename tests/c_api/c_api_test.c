/* The C interface from C: every group of functions, every way to be refused, two threads on one allocator.
 * Usage: c_api_test PLAN, a plan file of a small job. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidemark/tidemark.h>

static int failures = 0;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

#define CHECK_OK(call)                                                                                      \
  do {                                                                                                      \
    tidemark_error* error_of_call = NULL;                                                                   \
    tidemark_error** error = &error_of_call;                                                                \
    if ((call) != TIDEMARK_STATUS_OK) {                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, tidemark_error_message(error_of_call)); \
      ++failures;                                                                                           \
    }                                                                                                       \
    tidemark_error_free(error_of_call);                                                                     \
  } while (0)

/* The call is refused with this status and a text that contains `says`; and with NULL for the error as well. */
#define CHECK_REFUSED(wanted, says, call)                                                            \
  do {                                                                                               \
    tidemark_error* error_of_call = NULL;                                                            \
    tidemark_error** error = &error_of_call;                                                         \
    tidemark_status got = (call);                                                                    \
    if (got != (wanted) || tidemark_error_status(error_of_call) != (wanted) ||                       \
        strstr(tidemark_error_message(error_of_call), (says)) == NULL) {                             \
      fprintf(stderr, "%s:%d: %s: %s: '%s'\n", __FILE__, __LINE__, #call, tidemark_status_name(got), \
              tidemark_error_message(error_of_call));                                                \
      ++failures;                                                                                    \
    }                                                                                                \
    tidemark_error_free(error_of_call);                                                              \
    error = NULL;                                                                                    \
    if ((call) != (wanted)) {                                                                        \
      fprintf(stderr, "%s:%d: %s without an error object\n", __FILE__, __LINE__, #call);             \
      ++failures;                                                                                    \
    }                                                                                                \
  } while (0)

static const int64_t kMiB = 1024 * 1024;

static tidemark_device* open_device(const char* name, int64_t capacity_bytes) {
  tidemark_device_options options = {0};
  tidemark_device* device = NULL;
  options.struct_size = sizeof options;
  options.capacity_bytes = capacity_bytes;
  CHECK_OK(tidemark_device_open(name, &options, &device, error));
  return device;
}

static void test_version_and_names(void) {
  CHECK(tidemark_abi_version() == TIDEMARK_ABI_VERSION);
  CHECK(strlen(tidemark_version()) >= 5);
  CHECK(strcmp(tidemark_status_name(TIDEMARK_STATUS_OUT_OF_MEMORY), "out_of_memory") == 0);
  CHECK(strcmp(tidemark_status_name(1000), "unknown") == 0);
  CHECK(tidemark_error_status(NULL) == TIDEMARK_STATUS_OK);
  CHECK(strcmp(tidemark_error_message(NULL), "") == 0);
  CHECK(tidemark_buffer_data(NULL) == NULL && tidemark_buffer_size(NULL) == 0);
  tidemark_error_free(NULL);
  tidemark_buffer_free(NULL);
  tidemark_device_close(NULL);
  tidemark_allocator_free(NULL);
  tidemark_plan_free(NULL);
}

static void test_devices(void) {
  tidemark_device* device = NULL;
  tidemark_device_traits traits = {0};
  int64_t total = 0, free_bytes = 0;
  tidemark_stream stream = 0;
  tidemark_event event = 0;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "no device 'abacus'", tidemark_device_open("abacus", NULL, &device, error));
  CHECK(device == NULL);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "name is NULL", tidemark_device_open(NULL, NULL, &device, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "device is NULL", tidemark_device_open("sim", NULL, NULL, error));
  device = open_device("sim", 256 * kMiB);
  traits.struct_size = sizeof traits;
  CHECK_OK(tidemark_device_get_traits(device, &traits, error));
  CHECK(strcmp(traits.name, "sim") == 0 && traits.simulated == 1 && traits.granule_bytes == 2 * kMiB);
  CHECK_OK(tidemark_device_memory(device, &total, &free_bytes, error));
  CHECK(total == 256 * kMiB && free_bytes == total);
  CHECK_OK(tidemark_device_create_stream(device, &stream, error));
  CHECK_OK(tidemark_device_create_event(device, &event, error));
  CHECK_OK(tidemark_device_synchronize(device, error));
  CHECK_OK(tidemark_device_destroy_event(device, event, error));
  CHECK_OK(tidemark_device_destroy_stream(device, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "is NULL", tidemark_device_memory(device, NULL, &free_bytes, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "device is NULL", tidemark_device_synchronize(NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "traits is NULL", tidemark_device_get_traits(device, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "stream is NULL", tidemark_device_create_stream(device, NULL, error));
  tidemark_device_close(device);
}

/* An older program has smaller structs, a newer one larger ones. */
static void test_struct_sizes(void) {
  tidemark_device* device = NULL;
  struct {
    tidemark_device_options known;
    int64_t later;
  } newer;
  struct {
    tidemark_device_traits known;
    int64_t later;
  } traits;
  memset(&newer, 0, sizeof newer);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size is 0", tidemark_device_open("sim", &newer.known, &device, error));
  newer.known.struct_size = sizeof(newer.known) - 1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size", tidemark_device_open("sim", &newer.known, &device, error));
  newer.known.struct_size = (size_t)-1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size", tidemark_device_open("sim", &newer.known, &device, error));
  newer.known.struct_size = sizeof newer;
  newer.later = 1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "does not know", tidemark_device_open("sim", &newer.known, &device, error));
  newer.later = 0;
  newer.known.capacity_bytes = -1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "not negative", tidemark_device_open("sim", &newer.known, &device, error));
  newer.known.capacity_bytes = 0;
  CHECK_OK(tidemark_device_open("sim", &newer.known, &device, error));
  memset(&traits, 1, sizeof traits);
  traits.known.struct_size = sizeof traits;
  CHECK_OK(tidemark_device_get_traits(device, &traits.known, error));
  CHECK(traits.known.struct_size == sizeof traits && traits.later == 0);
  traits.known.struct_size = 8;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size is 8", tidemark_device_get_traits(device, &traits.known, error));
  tidemark_device_close(device);
}

static void name_owner(void* user, uint32_t owner, char* name, size_t capacity) {
  (void)user;
  snprintf(name, capacity, "layer %u", (unsigned)owner);
}

static void count_refusals(void* user, int64_t requested_bytes, const char* report) {
  CHECK(requested_bytes > 0 && strlen(report) > 0);
  ++*(int*)user;
}

static void test_allocator(void) {
  tidemark_device* device = open_device("host", 64 * kMiB);
  tidemark_allocator_options options = {0};
  tidemark_allocator_statistics statistics = {0};
  tidemark_allocator* allocator = NULL;
  tidemark_buffer* buffer = NULL;
  tidemark_stream streams[2] = {0, 0};
  tidemark_event event = 0;
  tidemark_address a = 0, b = 0, plain = 0;
  int64_t bytes = 0;
  int refusals = 0;
  options.struct_size = sizeof options;
  options.limit_bytes = 32 * kMiB;
  options.trace_entries = 100;
  options.owner_name = name_owner;
  options.on_out_of_memory = count_refusals;
  options.user = &refusals;
  CHECK_OK(tidemark_device_create_stream(device, &streams[0], error));
  CHECK_OK(tidemark_device_create_stream(device, &streams[1], error));
  CHECK_OK(tidemark_device_create_event(device, &event, error));
  CHECK_OK(tidemark_allocator_create(device, &options, &allocator, error));

  CHECK_OK(tidemark_allocator_allocate(allocator, 1000, streams[0], 7, &a, error));
  CHECK_OK(tidemark_allocator_block_bytes(allocator, a, &bytes, error));
  CHECK(a % 512 == 0 && bytes >= 1000);
  memset((void*)(uintptr_t)a, 42, 1000);
  CHECK_OK(tidemark_allocator_allocate(allocator, 5 * kMiB, streams[0], 7, &b, error));
  CHECK_OK(tidemark_allocator_allocate_plain(allocator, kMiB, streams[0], 8, &plain, error));
  CHECK(a != b && b != plain);

  /* Nothing of 5 MiB is free for the second stream until it is ordered after the first one. */
  CHECK_OK(tidemark_allocator_note_use(allocator, plain, streams[1], error));
  CHECK_OK(tidemark_allocator_release(allocator, b, error));
  CHECK_OK(tidemark_allocator_note_record(allocator, event, streams[0], error));
  CHECK_OK(tidemark_allocator_note_wait(allocator, streams[1], event, error));
  CHECK_OK(tidemark_allocator_allocate(allocator, 5 * kMiB, streams[1], 9, &b, error));
  CHECK_OK(tidemark_allocator_release_on(allocator, b, streams[1], error));
  CHECK_OK(tidemark_allocator_release(allocator, plain, error));

  CHECK_REFUSED(TIDEMARK_STATUS_OUT_OF_MEMORY, "layer 7",
                tidemark_allocator_allocate(allocator, 60 * kMiB, streams[0], 0, &b, error));
  CHECK_REFUSED(TIDEMARK_STATUS_OUT_OF_MEMORY, "allocate 60.00 MiB",
                tidemark_allocator_allocate(allocator, 60 * kMiB, streams[0], 0, &b, error));
  CHECK(b == 0 && refusals == 4);
  CHECK_OK(tidemark_allocator_report(allocator, &buffer, error));
  CHECK(tidemark_buffer_size(buffer) == (int64_t)strlen(tidemark_buffer_data(buffer)));
  tidemark_buffer_free(buffer);
  CHECK_OK(tidemark_allocator_snapshot(allocator, &buffer, error));
  CHECK(tidemark_buffer_size(buffer) > 100 && memcmp(tidemark_buffer_data(buffer), "\x80\x02", 2) == 0);
  tidemark_buffer_free(buffer);

  statistics.struct_size = sizeof statistics;
  CHECK_OK(tidemark_allocator_get_statistics(allocator, &statistics, error));
  CHECK(statistics.allocations == 1 && statistics.allocations_total == 4 && statistics.frees_total == 3);
  CHECK(statistics.requested_bytes == 1000 && statistics.out_of_memory_count == 4);
  CHECK(statistics.allocated_peak_bytes >= 6 * kMiB && statistics.limit_bytes == 32 * kMiB);
  CHECK_OK(tidemark_allocator_reset_peaks(allocator, error));
  CHECK_OK(tidemark_allocator_get_statistics(allocator, &statistics, error));
  CHECK(statistics.allocated_peak_bytes == statistics.allocated_bytes);
  CHECK_OK(tidemark_allocator_set_limit(allocator, 0, error));
  CHECK_OK(tidemark_allocator_get_statistics(allocator, &statistics, error));
  CHECK(statistics.limit_bytes == 64 * kMiB);
  CHECK_OK(tidemark_allocator_set_limit(allocator, 16 * kMiB, error));

  /* A second free, a foreign address: refused, and nothing is harmed. */
  CHECK_OK(tidemark_allocator_release(allocator, a, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "", tidemark_allocator_release(allocator, a, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "", tidemark_allocator_release(allocator, 12345, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "", tidemark_allocator_note_use(allocator, a, streams[0], error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no live block", tidemark_allocator_block_bytes(allocator, a, &bytes, error));
  CHECK_OK(tidemark_allocator_note_event_synchronized(allocator, event, error));
  CHECK_OK(tidemark_allocator_note_stream_synchronized(allocator, streams[0], error));
  CHECK_OK(tidemark_allocator_note_device_synchronized(allocator, error));
  CHECK_OK(tidemark_allocator_empty_cache(allocator, &bytes, error));
  CHECK(bytes > 0);
  CHECK_OK(tidemark_allocator_note_event_destroyed(allocator, event, error));
  CHECK_OK(tidemark_device_destroy_event(device, event, error));
  CHECK_OK(tidemark_device_destroy_stream(device, streams[1], error));
  CHECK_OK(tidemark_allocator_note_stream_destroyed(allocator, streams[1], error));

  /* The allocator keeps its device; live blocks go with it. */
  CHECK_OK(tidemark_allocator_allocate(allocator, kMiB, streams[0], 0, &a, error));
  tidemark_device_close(device);
  memset((void*)(uintptr_t)a, 1, (size_t)kMiB);
  tidemark_allocator_free(allocator);
}

static void test_allocator_refusals(void) {
  tidemark_device* device = open_device("sim", 0);
  tidemark_allocator_options options = {0};
  tidemark_allocator* allocator = NULL;
  tidemark_address address = 1;
  int64_t bytes = 0;
  options.struct_size = sizeof options;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "device is NULL", tidemark_allocator_create(NULL, NULL, &allocator, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "allocator is NULL", tidemark_allocator_create(device, NULL, NULL, error));
  options.unit_bytes = 700;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "power of two",
                tidemark_allocator_create(device, &options, &allocator, error));
  options.unit_bytes = 0;
  options.garbage_threshold = 2;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "garbage_threshold",
                tidemark_allocator_create(device, &options, &allocator, error));
  CHECK(allocator == NULL);
  CHECK_OK(tidemark_allocator_create(device, NULL, &allocator, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "negative", tidemark_allocator_allocate(allocator, -1, 0, 0, &address, error));
  CHECK(address == 0);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "address is NULL",
                tidemark_allocator_allocate(allocator, 1, 0, 0, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_OUT_OF_MEMORY, "",
                tidemark_allocator_allocate(allocator, INT64_MAX, 0, 0, &address, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "bytes is negative", tidemark_allocator_set_limit(allocator, -1, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "allocator is NULL",
                tidemark_allocator_allocate(NULL, 1, 0, 0, &address, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "allocator is NULL", tidemark_allocator_release(NULL, 1, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "allocator is NULL", tidemark_allocator_note_wait(NULL, 1, 1, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "allocator is NULL", tidemark_allocator_empty_cache(NULL, &bytes, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "allocator is NULL", tidemark_allocator_get_statistics(NULL, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "statistics is NULL",
                tidemark_allocator_get_statistics(allocator, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "pickle is NULL", tidemark_allocator_snapshot(allocator, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "text is NULL", tidemark_allocator_report(allocator, NULL, error));
  tidemark_allocator_free(allocator);
  tidemark_device_close(device);
}

struct Worker {
  tidemark_allocator* allocator;
  tidemark_stream stream;
  int wrong;
};

/* Blocks of its own stream, some of them given to the other thread's. */
static void* work(void* argument) {
  struct Worker* worker = argument;
  tidemark_address blocks[16] = {0};
  unsigned state = (unsigned)worker->stream * 2654435761u + 1;
  int i;
  for (i = 0; i < 4000; ++i) {
    size_t slot = (state >> 8) % 16;
    state = state * 1664525u + 1013904223u;
    if (blocks[slot] != 0) {
      worker->wrong += tidemark_allocator_release(worker->allocator, blocks[slot], NULL) != TIDEMARK_STATUS_OK;
      blocks[slot] = 0;
    } else {
      worker->wrong += tidemark_allocator_allocate(worker->allocator, (int64_t)(state >> 12), worker->stream, 1,
                                                   &blocks[slot], NULL) != TIDEMARK_STATUS_OK;
    }
  }
  for (i = 0; i < 16; ++i)
    if (blocks[i] != 0) worker->wrong += tidemark_allocator_release(worker->allocator, blocks[i], NULL) != 0;
  return NULL;
}

static void test_two_threads(void) {
  tidemark_device* device = open_device("sim", 0);
  tidemark_allocator* allocator = NULL;
  tidemark_allocator_statistics statistics = {0};
  struct Worker workers[2];
  pthread_t threads[2];
  int i;
  CHECK_OK(tidemark_allocator_create(device, NULL, &allocator, error));
  for (i = 0; i < 2; ++i) {
    workers[i].allocator = allocator;
    workers[i].wrong = 0;
    CHECK_OK(tidemark_device_create_stream(device, &workers[i].stream, error));
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (i = 0; i < 2; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].wrong == 0);
  }
  statistics.struct_size = sizeof statistics;
  CHECK_OK(tidemark_allocator_get_statistics(allocator, &statistics, error));
  CHECK(statistics.allocations == 0 && statistics.allocated_bytes == 0);
  CHECK(statistics.allocations_total == statistics.frees_total && statistics.frees_total > 3000);
  tidemark_allocator_free(allocator);
  tidemark_device_close(device);
}

static double load_above_plan(void* user, int32_t site) {
  CHECK(site >= 0);
  return *(const double*)user;
}

static void test_plan(const char* path) {
  tidemark_plan* plan = NULL;
  tidemark_device* device = open_device("sim", 0);
  tidemark_rank_figures figures = {0};
  tidemark_budget_options budget = {0};
  tidemark_budget_result result = {0};
  tidemark_run_options run = {0};
  tidemark_run_report report = {0};
  double load = 1000;
  int32_t count = 0;
  figures.struct_size = sizeof figures;
  budget.struct_size = sizeof budget;
  result.struct_size = sizeof result;
  run.struct_size = sizeof run;
  report.struct_size = sizeof report;
  CHECK_OK(tidemark_plan_read(path, &plan, error));
  CHECK_OK(tidemark_plan_rank_count(plan, &count, error));
  CHECK(count >= 1);
  CHECK_OK(tidemark_plan_rank_figures(plan, 0, &figures, error));
  CHECK(figures.fits == 1 && figures.peak_bytes > 0 && figures.peak_bytes <= figures.budget_bytes);
  CHECK(figures.contingency_limit_f >= figures.load);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "ranks", tidemark_plan_rank_figures(plan, count, &figures, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "ranks", tidemark_plan_rank_figures(plan, -1, &figures, error));

  CHECK_OK(tidemark_plan_check_budget(plan, NULL, &result, error));
  CHECK(result.verdict == TIDEMARK_BUDGET_PASS && result.budget_bytes == figures.budget_bytes);
  budget.budget_bytes = figures.peak_bytes / 2;
  CHECK_OK(tidemark_plan_check_budget(plan, &budget, &result, error));
  CHECK(result.verdict == TIDEMARK_BUDGET_FAIL && result.host == 0 && result.peak_bytes > budget.budget_bytes);
  budget.budget_bytes = -1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "not negative", tidemark_plan_check_budget(plan, &budget, &result, error));

  run.verify = 1;
  run.steps = 2;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(report.simulated == 1 && report.tasks > 0 && report.step_ns > 0 && report.mismatches == 0);
  CHECK(report.verified_reads > 0 && report.peak_bytes <= report.planned_bytes);
  run.load = load_above_plan;
  run.user = &load;
  CHECK_REFUSED(TIDEMARK_STATUS_INFEASIBLE, "expert load",
                tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  run.scale = 3;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "power of two", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "device is NULL", tidemark_plan_run_rank(plan, 0, NULL, NULL, &report, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "report is NULL", tidemark_plan_run_rank(plan, 0, device, NULL, NULL, error));
  tidemark_plan_free(plan);
  tidemark_device_close(device);

  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "no-such-plan.json", tidemark_plan_read("no-such-plan.json", &plan, error));
  CHECK(plan == NULL);
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "mine: ", tidemark_plan_read_text("{}", 2, "mine", &plan, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "text is NULL", tidemark_plan_read_text(NULL, 0, NULL, &plan, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "plan is NULL", tidemark_plan_rank_count(NULL, &count, error));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  test_version_and_names();
  test_devices();
  test_struct_sizes();
  test_allocator();
  test_allocator_refusals();
  test_two_threads();
  test_plan(argv[1]);
  if (failures == 0) printf("all well\n");
  return failures == 0 ? 0 : 1;
}
