/* The C interface from C: every group of functions, every way to be refused, two threads on one allocator.
 * Usage: c_api_test PLAN TIGHT, plan files of a small job and of a rank that has little room for more rows. */
#define _GNU_SOURCE

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tidemark/tidemark.h>

#include "tests/support/checks.h"

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

/* A framework that queues its launches: how often it was asked to submit them, and what it answers. */
struct Queue {
  int asked;
  int32_t ordinal;
  int32_t answer;
  const char* why;
};

static int32_t submit_queued(void* user, int32_t ordinal, char* why, int64_t why_bytes) {
  struct Queue* queue = user;
  ++queue->asked;
  queue->ordinal = ordinal;
  CHECK(why_bytes > 256 && why[0] == '\0');
  if (queue->why != NULL) snprintf(why, (size_t)why_bytes, "%s", queue->why);
  return queue->answer;
}

static void test_queued_launches(void) {
  struct Queue queue = {0, -1, TIDEMARK_SUBMITTED, NULL};
  tidemark_device_options options = {.struct_size = sizeof options, .ordinal = 3};
  tidemark_device* device = NULL;
  tidemark_stream stream;
  int asked;
  options.submit_queued = submit_queued;
  options.submit_user = &queue;
  CHECK_OK(tidemark_device_open("sim", &options, &device, error));
  CHECK_OK(tidemark_device_create_stream(device, &stream, error));
  CHECK(queue.asked == 0);
  CHECK_OK(tidemark_device_synchronize(device, error));
  CHECK(queue.asked == 1 && queue.ordinal == 3);
  queue.answer = TIDEMARK_SUBMIT_LATER;
  CHECK_REFUSED(TIDEMARK_STATUS_NO_RESOURCE, "cannot be waited for here", tidemark_device_synchronize(device, error));
  queue.why = "a kernel failed";
  queue.answer = TIDEMARK_SUBMIT_FAILED;
  CHECK_REFUSED(TIDEMARK_STATUS_DEVICE_LOST, "the framework cannot submit what it has queued: a kernel failed",
                tidemark_device_synchronize(device, error));
  queue.answer = -7; /* no answer that there is */
  CHECK_REFUSED(TIDEMARK_STATUS_DEVICE_LOST, "a kernel failed", tidemark_device_synchronize(device, error));
  asked = queue.asked;
  CHECK(asked >= 4);
  CHECK_OK(tidemark_device_destroy_stream(device, stream, error)); /* the device's own */
  CHECK(queue.asked == asked);
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
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "is not zero", tidemark_device_open("sim", &newer.known, &device, error));
  newer.later = 0;
  newer.known.capacity_bytes = -1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "capacity_bytes is -1",
                tidemark_device_open("sim", &newer.known, &device, error));
  newer.known.capacity_bytes = 0;
  CHECK_OK(tidemark_device_open("sim", &newer.known, &device, error));
  memset(&traits, 1, sizeof traits);
  traits.known.struct_size = sizeof traits;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "is not zero", tidemark_device_get_traits(device, &traits.known, error));
  traits.later = 0;
  CHECK_OK(tidemark_device_get_traits(device, &traits.known, error));
  CHECK(traits.known.struct_size == sizeof traits && traits.later == 0);
  traits.known.struct_size = 8;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size is 8", tidemark_device_get_traits(device, &traits.known, error));
  tidemark_device_close(device);
}

/* Every number of an options struct has limits: outside them there is no handle, and one text that names it. */
static void refuse_device(tidemark_device_options options, const char* says) {
  tidemark_device* device = NULL;
  options.struct_size = sizeof options;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, says, tidemark_device_open("sim", &options, &device, error));
  CHECK(device == NULL);
}

static void refuse_allocator(tidemark_device* device, tidemark_allocator_options options, const char* says) {
  tidemark_allocator* allocator = NULL;
  options.struct_size = sizeof options;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, says, tidemark_allocator_create(device, &options, &allocator, error));
  CHECK(allocator == NULL);
}

static void test_number_limits(void) {
  static const int64_t kWild[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 62};
  tidemark_device* device = open_device("sim", 0);
  size_t i;
  for (i = 0; i < sizeof kWild / sizeof *kWild; ++i) {
    refuse_device((tidemark_device_options){.capacity_bytes = kWild[i]}, "capacity_bytes is");
    refuse_device((tidemark_device_options){.d2h_bytes_per_s = kWild[i]}, "d2h_bytes_per_s is");
    refuse_device((tidemark_device_options){.h2d_bytes_per_s = kWild[i]}, "h2d_bytes_per_s is");
    refuse_allocator(device, (tidemark_allocator_options){.limit_bytes = kWild[i]}, "limit_bytes is");
    refuse_allocator(device, (tidemark_allocator_options){.address_space_bytes = kWild[i]}, "address_space_bytes is");
    refuse_allocator(device, (tidemark_allocator_options){.unit_bytes = kWild[i]}, "unit_bytes is");
    refuse_allocator(device, (tidemark_allocator_options){.trace_entries = kWild[i]}, "trace_entries is");
    refuse_allocator(device, (tidemark_allocator_options){.kept_bytes = kWild[i]}, "kept_bytes is");
  }
  refuse_device((tidemark_device_options){.ordinal = -1}, "ordinal is -1; it must be from 0 to");
  refuse_device((tidemark_device_options){.ordinal = INT32_MAX}, "ordinal is");
  refuse_device((tidemark_device_options){.d2h_bytes_per_s = 1}, "d2h_bytes_per_s is 1; it must be from");
  refuse_allocator(device, (tidemark_allocator_options){.device_index = -1}, "device_index is -1");
  refuse_allocator(device, (tidemark_allocator_options){.device_index = INT32_MAX}, "device_index is");
  refuse_allocator(device, (tidemark_allocator_options){.unit_bytes = 1 << 30}, "unit_bytes is");
  refuse_allocator(device, (tidemark_allocator_options){.address_space_bytes = 1}, "address_space_bytes is 1;");
  refuse_allocator(device, (tidemark_allocator_options){.garbage_threshold = NAN}, "garbage_threshold is");
  tidemark_device_close(device);
  /* The largest of everything works. */
  device = open_device("sim", (int64_t)1 << 46);
  {
    tidemark_allocator_options options = {.struct_size = sizeof options,
                                          .limit_bytes = (int64_t)1 << 60,
                                          .address_space_bytes = (int64_t)1 << 46,
                                          .unit_bytes = 2 * 1024 * 1024,
                                          .device_index = 1023};
    tidemark_allocator* allocator = NULL;
    tidemark_buffer* pickle = NULL;
    tidemark_address address = 0;
    CHECK_OK(tidemark_allocator_create(device, &options, &allocator, error));
    CHECK_OK(tidemark_allocator_allocate(allocator, 1, 0, 0, &address, error));
    CHECK_OK(tidemark_allocator_snapshot(allocator, &pickle, error));
    CHECK(tidemark_buffer_size(pickle) < kMiB);
    tidemark_buffer_free(pickle);
    tidemark_allocator_free(allocator);
  }
  tidemark_device_close(device);
}

/* ---- struct_size of any value --------------------------------------------------------------------------------- */

/* One struct of the interface: its size, and a call that takes one. */
struct Shape {
  const char* name;
  size_t first; /* in the first version of the interface */
  size_t bytes;
  int is_result;
  tidemark_status (*call)(const void* context, void* given);
};

/* What the calls below need besides. */
struct Context {
  tidemark_device* device;
  const tidemark_allocator* allocator;
  const tidemark_plan* plan;
};

static tidemark_status take_device_options(const void* context, void* given) {
  tidemark_device* device = NULL;
  const tidemark_status status = tidemark_device_open("null", given, &device, NULL);
  (void)context;
  CHECK((device != NULL) == (status == TIDEMARK_STATUS_OK));
  tidemark_device_close(device);
  return status;
}
static tidemark_status take_traits(const void* context, void* given) {
  return tidemark_device_get_traits(((const struct Context*)context)->device, given, NULL);
}
static tidemark_status take_allocator_options(const void* context, void* given) {
  tidemark_allocator* allocator = NULL;
  const tidemark_status status =
      tidemark_allocator_create(((const struct Context*)context)->device, given, &allocator, NULL);
  CHECK((allocator != NULL) == (status == TIDEMARK_STATUS_OK));
  tidemark_allocator_free(allocator);
  return status;
}
static tidemark_status take_pool_options(const void* context, void* given) {
  tidemark_allocator* allocator = NULL;
  tidemark_status status;
  CHECK_OK(tidemark_allocator_create(((const struct Context*)context)->device, NULL, &allocator, error));
  status = tidemark_pool_create(allocator, "pool", given, NULL);
  tidemark_allocator_free(allocator);
  return status;
}
static tidemark_status take_statistics(const void* context, void* given) {
  return tidemark_allocator_get_statistics(((const struct Context*)context)->allocator, given, NULL);
}
static tidemark_status take_figures(const void* context, void* given) {
  return tidemark_plan_rank_figures(((const struct Context*)context)->plan, 0, given, NULL);
}
static tidemark_status take_budget_options(const void* context, void* given) {
  tidemark_budget_result result = {.struct_size = sizeof result};
  return tidemark_plan_check_budget(((const struct Context*)context)->plan, given, &result, NULL);
}
static tidemark_status take_budget_result(const void* context, void* given) {
  return tidemark_plan_check_budget(((const struct Context*)context)->plan, NULL, given, NULL);
}

/* The struct lies at the end of a page behind which nothing may be touched. Its size is `size`, and what it holds
 * behind the `shape->bytes` that are known is `tail`. Every byte that is not known must stay as it was. */
static void try_size(const struct Shape* shape, const struct Context* context, unsigned char* page_end, size_t size,
                     unsigned char tail) {
  const size_t room = size < 8 ? 8 : (size + 7) / 8 * 8;
  const int fits = (size == shape->first || size >= shape->bytes) && size <= 1024;
  const int clean = tail == 0 || size <= shape->bytes;
  unsigned char* given = page_end - room;
  tidemark_status status;
  size_t i;
  size_t touched = 0;
  memset(page_end - 4096, 0xa5, 4096 - room);
  memset(given, 0, room);
  if (size > shape->bytes) memset(given + shape->bytes, tail, room - shape->bytes);
  memcpy(given, &size, sizeof size);
  status = shape->call(context, given);
  if (status != (fits && clean ? TIDEMARK_STATUS_OK : TIDEMARK_STATUS_INVALID)) {
    fprintf(stderr, "%s with struct_size %zu and a tail of %d: %s\n", shape->name, size, tail,
            tidemark_status_name(status));
    ++failures;
  }
  CHECK(memcmp(given, &size, sizeof size) == 0);
  for (i = 0; i < 4096 - room; ++i) touched += page_end[i - 4096] != 0xa5;
  for (i = shape->bytes; i < room; ++i) touched += given[i] != (size > shape->bytes ? tail : 0);
  for (i = sizeof size; i < room && (status != TIDEMARK_STATUS_OK || !shape->is_result); ++i)
    touched += i < shape->bytes && given[i] != 0;
  if (touched != 0) fprintf(stderr, "%s with struct_size %zu: %zu bytes were touched\n", shape->name, size, touched);
  failures += touched != 0;
}

static void fuzz_sizes(const struct Shape* shapes, size_t count, const struct Context* context) {
  unsigned char* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  size_t s, size;
  CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  for (s = 0; s < count; ++s) {
    for (size = 0; size <= 1040; ++size) {
      try_size(&shapes[s], context, pages + 4096, size, 0);
      try_size(&shapes[s], context, pages + 4096, size, 1);
    }
  }
  CHECK(munmap(pages, 8192) == 0);
}

static void test_any_struct_size(void) {
  static const struct Shape kShapes[] = {
      {"device_options", offsetof(tidemark_device_options, submit_queued), sizeof(tidemark_device_options), 0,
       take_device_options},
      {"traits", sizeof(tidemark_device_traits), sizeof(tidemark_device_traits), 1, take_traits},
      {"allocator_options", sizeof(tidemark_allocator_options), sizeof(tidemark_allocator_options), 0,
       take_allocator_options},
      {"pool_options", sizeof(tidemark_pool_options), sizeof(tidemark_pool_options), 0, take_pool_options},
      {"statistics", sizeof(tidemark_allocator_statistics), sizeof(tidemark_allocator_statistics), 1, take_statistics},
  };
  tidemark_device* device = open_device("sim", 0);
  tidemark_allocator* allocator = NULL;
  struct Context context = {device, NULL, NULL};
  CHECK_OK(tidemark_allocator_create(device, NULL, &allocator, error));
  context.allocator = allocator;
  fuzz_sizes(kShapes, sizeof kShapes / sizeof *kShapes, &context);
  tidemark_allocator_free(allocator);
  tidemark_device_close(device);
}

static void fuzz_plan_structs(const tidemark_plan* plan, tidemark_device* device) {
  static const struct Shape kShapes[] = {
      {"figures", offsetof(tidemark_rank_figures, offloaded_bytes), sizeof(tidemark_rank_figures), 1, take_figures},
      {"budget_options", sizeof(tidemark_budget_options), sizeof(tidemark_budget_options), 0, take_budget_options},
      {"budget_result", sizeof(tidemark_budget_result), sizeof(tidemark_budget_result), 1, take_budget_result},
  };
  const struct Context context = {device, NULL, plan};
  struct {
    tidemark_run_report known;
    int64_t later;
  } report;
  struct {
    tidemark_run_options known;
    int64_t later;
  } run;
  fuzz_sizes(kShapes, sizeof kShapes / sizeof *kShapes, &context);
  /* A run takes longer: the edges only. */
  memset(&report, 0, sizeof report);
  memset(&run, 0, sizeof run);
  report.known.struct_size = sizeof report;
  run.known.struct_size = sizeof run;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run.known, &report.known, error));
  CHECK(report.known.tasks > 0 && report.known.struct_size == sizeof report);
  report.later = 7;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "report: struct_size",
                tidemark_plan_run_rank(plan, 0, device, &run.known, &report.known, error));
  CHECK(report.later == 7);
  /* A program from before there were chunks. */
  run.known.struct_size = offsetof(tidemark_run_options, agree);
  report.later = 0;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run.known, &report.known, error));
  run.known.struct_size = offsetof(tidemark_run_options, expert_group);
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run.known, &report.known, error));
  run.known.struct_size = offsetof(tidemark_run_options, sent_load);
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run.known, &report.known, error));
  run.known.struct_size += 4;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "tidemark_run_options: struct_size",
                tidemark_plan_run_rank(plan, 0, device, &run.known, &report.known, error));
  run.known.struct_size = sizeof run;
  run.later = 7;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "tidemark_run_options: struct_size",
                tidemark_plan_run_rank(plan, 0, device, &run.known, &report.known, error));
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
  CHECK(refusals == 4);
  /* Asked for without a refusal, the report speaks of none. */
  CHECK_OK(tidemark_allocator_report(allocator, &buffer, error));
  CHECK(tidemark_buffer_size(buffer) == (int64_t)strlen(tidemark_buffer_data(buffer)));
  CHECK(strstr(tidemark_buffer_data(buffer), "The device has 64.00 MiB, of which ") == tidemark_buffer_data(buffer));
  CHECK(strstr(tidemark_buffer_data(buffer), "layer 7 (1 of ") != NULL);
  CHECK(strstr(tidemark_buffer_data(buffer), "allocate") == NULL);
  CHECK(strstr(tidemark_buffer_data(buffer), "would do") == NULL);
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
  CHECK(allocator == NULL);
  options.garbage_threshold = 2;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "garbage_threshold",
                tidemark_allocator_create(device, &options, &allocator, error));
  CHECK(allocator == NULL);
  CHECK_OK(tidemark_allocator_create(device, NULL, &allocator, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "negative", tidemark_allocator_allocate(allocator, -1, 0, 0, &address, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "address is NULL",
                tidemark_allocator_allocate(allocator, 1, 0, 0, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_OUT_OF_MEMORY, "",
                tidemark_allocator_allocate(allocator, INT64_MAX, 0, 0, &address, error));
  CHECK_REFUSED(TIDEMARK_STATUS_OUT_OF_MEMORY, "",
                tidemark_allocator_allocate_plain(allocator, INT64_MAX, 0, 0, &address, error));
  CHECK(address == 1); /* outputs are written on success only */
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

/* Streams beyond the limit are refused whole, and one that is destroyed makes room. */
static void test_stream_limit(void) {
  tidemark_device* device = open_device("sim", 0);
  tidemark_allocator* allocator = NULL;
  tidemark_address address = 1;
  tidemark_stream stream = 0;
  CHECK_OK(tidemark_allocator_create(device, NULL, &allocator, error));
  while (stream < 10000 && tidemark_allocator_note_record(allocator, 1, stream + 1, NULL) == TIDEMARK_STATUS_OK)
    ++stream;
  CHECK(stream >= 4095 && stream <= 4096); /* the default stream may be one of them */
  CHECK_REFUSED(TIDEMARK_STATUS_NO_RESOURCE, "4096 streams",
                tidemark_allocator_note_record(allocator, 1, 20000, error));
  CHECK_REFUSED(TIDEMARK_STATUS_NO_RESOURCE, "", tidemark_allocator_allocate(allocator, 1, 20000, 0, &address, error));
  CHECK(address == 1);
  CHECK_OK(tidemark_allocator_note_stream_destroyed(allocator, 1, error));
  CHECK_OK(tidemark_allocator_note_record(allocator, 1, 20000, error));
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

/* A peak that was edited down must not pass a budget: the digits behind the first become blanks. Nor is a load promised
 * that the program does not keep. */
static void test_edited_plan(const char* path) {
  static const char kKey[] = "\"peak_bytes\":", kPromise[] = "\"worst_load_f\":", kPolicy[] = "\"policy\":\"";
  tidemark_plan* plan = NULL;
  tidemark_buffer* answer = NULL;
  tidemark_device* device = open_device("sim", 0);
  tidemark_run_report report = {.struct_size = sizeof report};
  FILE* file = fopen(path, "rb");
  char *text = NULL, *digit = NULL;
  long bytes = 0;
  CHECK(file != NULL);
  CHECK(fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) > 0);
  rewind(file);
  text = calloc((size_t)bytes + 1, 1);
  CHECK(text != NULL && fread(text, 1, (size_t)bytes, file) == (size_t)bytes);
  fclose(file);
  CHECK_OK(tidemark_plan_read_text(text, bytes, "good", &plan, error));
  tidemark_plan_free(plan);
  digit = strstr(text, kPromise);
  CHECK(digit != NULL && digit[sizeof kPromise - 1] == '4');
  digit[sizeof kPromise - 1] = '7';
  CHECK_OK(tidemark_plan_read_text(text, bytes, "promising", &plan, error));
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "promising: rank 0: the program is not sound: worst_load_f is 7",
                tidemark_plan_run_rank(plan, 0, device, NULL, &report, error));
  tidemark_plan_free(plan);
  digit[sizeof kPromise - 1] = '4';
  digit = strstr(text, kPolicy);
  CHECK(digit != NULL && digit[sizeof kPolicy - 1] == 'o'); /* optimal */
  digit[sizeof kPolicy - 1] = 'x';
  CHECK_OK(tidemark_plan_read_text(text, bytes, "strange", &plan, error));
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "strange: policy 'xptimal' is not known; it is one of keep-all, ",
                tidemark_plan_answer(plan, &answer, error));
  CHECK(answer == NULL);
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "strange: policy 'xptimal' is not known",
                tidemark_plan_run_rank(plan, 0, device, NULL, &report, error));
  tidemark_plan_free(plan);
  digit[sizeof kPolicy - 1] = 'o';
  digit = strstr(text, kKey);
  CHECK(digit != NULL);
  for (digit += sizeof kKey; *digit >= '0' && *digit <= '9'; ++digit) *digit = ' ';
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "(peak_bytes)",
                tidemark_plan_read_text(text, bytes, "edited", &plan, error));
  free(text);
  tidemark_device_close(device);
}

static void test_plan(const char* path) {
  tidemark_plan* plan = NULL;
  tidemark_device* device = open_device("sim", 0);
  tidemark_rank_figures figures = {0};
  tidemark_budget_options budget = {0};
  tidemark_budget_result result = {0};
  tidemark_run_options run = {0};
  tidemark_run_report report = {0};
  double load = 0;
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
  CHECK(figures.worst_load_f == 4 && figures.worst_load_f > figures.load);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "ranks", tidemark_plan_rank_figures(plan, count, &figures, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "ranks", tidemark_plan_rank_figures(plan, -1, &figures, error));

  CHECK_OK(tidemark_plan_check_budget(plan, NULL, &result, error));
  CHECK(result.verdict == TIDEMARK_BUDGET_PASS && result.budget_bytes == figures.budget_bytes);
  budget.budget_bytes = figures.peak_bytes / 2;
  CHECK_OK(tidemark_plan_check_budget(plan, &budget, &result, error));
  CHECK(result.verdict == TIDEMARK_BUDGET_FAIL && result.host == 0 && result.peak_bytes > budget.budget_bytes);
  budget.budget_bytes = -1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "budget_bytes is -1",
                tidemark_plan_check_budget(plan, &budget, &result, error));
  budget.budget_bytes = 0;
  budget.margin_bytes = INT64_MAX;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "margin_bytes is", tidemark_plan_check_budget(plan, &budget, &result, error));

  run.verify = 1;
  run.steps = 2;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(report.simulated == 1 && report.tasks > 0 && report.step_ns > 0 && report.mismatches == 0);
  CHECK(report.verified_reads > 0 && report.peak_bytes <= report.planned_bytes);
  run.load = load_above_plan;
  run.user = &load;
  load = figures.worst_load_f;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(report.tasks > 0 && report.mismatches == 0);
  load = 1048577;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "loads are from 0 to 1048576",
                tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(report.tasks > 0); /* outputs are written on success only */
  run.scale = 3;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "power of two", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  run.scale = (int64_t)1 << 62;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "scale is 4611686018427387904; it must be from 1 to",
                tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  run.scale = INT64_MIN;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "scale is", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  run.scale = 1 << 20;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "at most 1/", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  run.scale = 1;
  run.steps = -1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "steps is -1", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  fuzz_plan_structs(plan, device);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "device is NULL", tidemark_plan_run_rank(plan, 0, NULL, NULL, &report, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "report is NULL", tidemark_plan_run_rank(plan, 0, device, NULL, NULL, error));
  tidemark_plan_free(plan);
  tidemark_device_close(device);

  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "no-such-plan.json", tidemark_plan_read("no-such-plan.json", &plan, error));
  CHECK(plan == NULL);
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "mine: ", tidemark_plan_read_text("{}", 2, "mine", &plan, error));
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "two?lines: ", tidemark_plan_read_text("{}", 2, "two\nlines", &plan, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "text is NULL", tidemark_plan_read_text(NULL, 0, NULL, &plan, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "plan is NULL", tidemark_plan_rank_count(NULL, &count, error));
}

/* A rank of an expert group: how loaded, what the others say, and what was asked. */
struct Member {
  double load, sent_load;
  int32_t others_need; /* chunks of every section; 0: they want none */
  int32_t is_told;     /* wherever it wants chunks; 0: what the rules say */
  int32_t others_cannot;
  int32_t group, asked, wanted, cannot, most, left;
  int64_t numbers; /* of the sections asked for, added up */
};
static double load_of_member(void* user, int32_t site) {
  CHECK(site >= 0);
  return ((const struct Member*)user)->load;
}
static double sent_load_of_member(void* user, int32_t site) {
  CHECK(site >= 0);
  return ((const struct Member*)user)->sent_load;
}
static int32_t agree_as_told(void* user, int32_t group, int32_t section, int32_t wanted, int32_t chunks) {
  struct Member* member = user;
  int32_t most = chunks > member->others_need ? chunks : member->others_need;
  CHECK((wanted == 0 || wanted == 1) && (chunks == 0 || (chunks >= 2 && chunks <= 1 << 20)));
  member->numbers += section;
  member->group = group;
  ++member->asked;
  member->wanted += wanted;
  member->cannot += chunks == 0;
  if (wanted && chunks > member->most) member->most = chunks;
  if (!wanted && member->others_need == 0) return 1;
  if (chunks == 0 || member->others_cannot) return 0;
  if (wanted && member->is_told > 0) return member->is_told;
  return most < 2 ? 2 : most;
}
/* 0 + 1 + ... + (count - 1) */
static int64_t sum_below(int64_t count) {
  return count * (count - 1) / 2;
}
static void leave_group(void* user, int32_t group) {
  struct Member* member = user;
  CHECK(member->asked == 0 || group == member->group);
  ++member->left;
}

/* Who has no loads is asked all the same, in every step, since others wait for its answer; and runs in chunks with
 * them, which takes it longer and no more memory. */
static void test_chunks_as_planned(const tidemark_plan* plan, tidemark_device* device) {
  struct Member member = {0};
  tidemark_run_options run = {
      .struct_size = sizeof run, .verify = 1, .user = &member, .agree = agree_as_told, .leave = leave_group};
  tidemark_run_report whole = {.struct_size = sizeof whole}, chunked = {.struct_size = sizeof chunked};
  int32_t sections;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &whole, error));
  sections = member.asked;
  CHECK(sections > 0 && member.numbers == sum_below(sections) && member.wanted == 0 && member.cannot == 0);
  CHECK(whole.chunked_sections == 0);
  member = (struct Member){.others_need = 3};
  run.steps = 2;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &chunked, error));
  CHECK(member.asked == 2 * sections && member.numbers == 2 * sum_below(sections));
  CHECK(member.cannot == 0 && member.left == 0 && chunked.chunked_sections == sections);
  CHECK(chunked.step_ns > whole.step_ns && chunked.peak_bytes == whole.peak_bytes);
  CHECK(chunked.mismatches == 0 && chunked.verified_reads > whole.verified_reads);
  /* Where the others cannot, who can run whole does. */
  member = (struct Member){.others_need = 3, .others_cannot = 1};
  run.steps = 1;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &chunked, error));
  CHECK(member.asked == sections && member.left == 0 && chunked.chunked_sections == 0);
}

/* Every run that does not end well leaves its group once, also one that never began; one that is called wrong does not.
 * CHECK_REFUSED calls twice. */
static void test_leaving(const tidemark_plan* plan, tidemark_device* device) {
  tidemark_device* small = open_device("sim", 1024 * kMiB);
  tidemark_run_report report = {.struct_size = sizeof report};
  struct Member member = {.load = NAN};
  tidemark_run_options run = {.struct_size = sizeof run, .user = &member, .agree = agree_as_told, .leave = leave_group};
  CHECK_REFUSED(TIDEMARK_STATUS_INFEASIBLE, "", tidemark_plan_run_rank(plan, 0, small, &run, &report, error));
  CHECK(member.left == 2 && member.asked == 0);
  run.scale = 1 << 20;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "scale", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.left == 4 && member.asked == 0);
  run.scale = 3;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "scale", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.left == 4);
  run.scale = 1;
  run.load = load_of_member;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "loads are", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.left == 6);

  run.leave = NULL; /* nobody waits */
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "loads are", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  tidemark_device_close(small);
}

/* A group that does not agree to what a rank needs: a clear refusal, and the group is told, once. */
static void refuse_chunks(const tidemark_plan* plan, tidemark_device* device, struct Member member) {
  tidemark_run_options run = {
      .struct_size = sizeof run, .load = load_of_member, .user = &member, .agree = agree_as_told, .leave = leave_group};
  tidemark_run_report report = {.struct_size = sizeof report};
  CHECK_REFUSED(TIDEMARK_STATUS_INFEASIBLE, "the group did not agree to it",
                tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.wanted > 0 && member.cannot == 0 && member.left == 2); /* the call above is made twice */
  CHECK(report.tasks == 0);
}

/* A negative answer ends a run that could go on whole. */
static int32_t agree_once(void* user, int32_t group, int32_t section, int32_t wanted, int32_t chunks) {
  struct Member* member = user;
  (void)wanted;
  (void)chunks;
  member->group = group;
  ++member->asked;
  return section == 0 ? 1 : -1;
}
static void test_lost_group(const tidemark_plan* plan, tidemark_device* device) {
  struct Member member = {0};
  tidemark_run_options run = {.struct_size = sizeof run, .user = &member, .agree = agree_once, .leave = leave_group};
  tidemark_run_report report = {.struct_size = sizeof report};
  CHECK_REFUSED(TIDEMARK_STATUS_PEER_LOST, "section 1: the expert group is lost",
                tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.asked == 4 && member.left == 2 && report.tasks == 0);
}

/* At the worst load a step completes where the group agrees, and where there is none to ask. */
static void test_chunks(const char* path) {
  tidemark_plan* plan = NULL;
  tidemark_device* device = open_device("sim", 64 * 1024 * kMiB);
  tidemark_rank_figures figures = {.struct_size = sizeof figures};
  tidemark_run_options run = {.struct_size = sizeof run, .verify = 1};
  tidemark_run_report report = {.struct_size = sizeof report};
  struct Member member = {0};
  int32_t sections, wanted, most;
  CHECK_OK(tidemark_plan_read(path, &plan, error));
  CHECK_OK(tidemark_plan_rank_figures(plan, 0, &figures, error));
  CHECK(figures.worst_load_f == 32);
  run.load = load_of_member;
  run.agree = agree_as_told;
  run.leave = leave_group;
  run.user = &member;
  member.load = figures.worst_load_f;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  sections = member.asked;
  most = member.most;
  wanted = member.wanted; /* all but a few, beside which little is held yet */
  CHECK(sections > 300 && member.numbers == sum_below(sections) && 100 * wanted >= 99 * sections && most > 2);
  CHECK(member.group == figures.rank && member.left == 0 && member.cannot == 0);
  CHECK(report.mismatches == 0 && report.verified_reads > 0 && report.chunked_sections == wanted);

  refuse_chunks(plan, device, (struct Member){.load = figures.worst_load_f, .others_cannot = 1});
  refuse_chunks(plan, device, (struct Member){.load = figures.worst_load_f, .is_told = 1});
  refuse_chunks(plan, device, (struct Member){.load = figures.worst_load_f, .is_told = most - 1});
  /* More than it needs does. */
  member = (struct Member){.load = figures.worst_load_f, .is_told = most + 1};
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.wanted == wanted && report.chunked_sections >= wanted);
  /* Nobody wants what nobody has to be asked for. */
  member = (struct Member){.load = figures.load, .others_cannot = 1};
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.asked == sections && member.wanted == 0 && report.chunked_sections == 0);

  run.agree = NULL;
  member = (struct Member){.load = figures.worst_load_f};
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(member.asked == 0 && member.left == 0 && report.chunked_sections == wanted);

  /* All tokens of the four nodes go to experts of this one, in equal parts to its devices. */
  run.sent_load = sent_load_of_member;
  member = (struct Member){.load = 4, .sent_load = 4};
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK(report.mismatches == 0 && report.chunked_sections > 0);
  member.sent_load = NAN;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "loads are", tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  run.load = NULL;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "sent_load is asked with load",
                tidemark_plan_run_rank(plan, 0, device, &run, &report, error));

  test_chunks_as_planned(plan, device);
  test_leaving(plan, device);
  test_lost_group(plan, device);
  tidemark_plan_free(plan);
  tidemark_device_close(device);
}

/* The answer says whether it fits; what comes beside it is a plan like any other, which gives the same answer again. */
static void test_graph(void) {
  const char* text = "G 3 3\nN 0 1 10 0 a\nN 1 1 20 0 b\nN 2 1 10 0 c\nE 0 1\nE 1 2\nE 0 2\n";
  const int64_t bytes = (int64_t)strlen(text);
  tidemark_graph_options options = {.struct_size = sizeof options, .budget_bytes = 40};
  tidemark_buffer *answer = NULL, *file = NULL, *again = NULL;
  for (int fits = 1; fits >= 0; --fits) {
    tidemark_plan* plan = NULL;
    tidemark_rank_figures figures = {.struct_size = sizeof figures};
    options.budget_bytes = fits ? 40 : 39; /* 40: what c touches and makes with b there */
    CHECK_OK(tidemark_graph_plan(text, bytes, "step", &options, &answer, &file, error));
    const char* const said = strstr((const char*)tidemark_buffer_data(answer), "\"captured\"");
    CHECK(said != NULL && strstr(said, fits ? "\"status\": \"optimal\"" : "\"status\": \"infeasible\"") != NULL);
    CHECK_OK(tidemark_plan_read_text(tidemark_buffer_data(file), tidemark_buffer_size(file), "file", &plan, error));
    CHECK_OK(tidemark_plan_rank_figures(plan, 0, &figures, error));
    CHECK(figures.fits == fits && figures.peak_bytes >= 40);
    CHECK_OK(tidemark_plan_answer(plan, &again, error));
    const char* const same = strstr((const char*)tidemark_buffer_data(again), "\"captured\"");
    CHECK(same != NULL && said != NULL && strcmp(same, said) == 0);
    CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "answer is NULL", tidemark_plan_answer(plan, NULL, error));
    tidemark_plan_free(plan);
    tidemark_buffer_free(again);
    tidemark_buffer_free(file);
    tidemark_buffer_free(answer);
  }
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "plan is NULL", tidemark_plan_answer(NULL, &again, error));
  CHECK_OK(tidemark_graph_plan(text, bytes, NULL, &options, &answer, NULL, error));
  tidemark_buffer_free(answer);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "budget_bytes",
                tidemark_graph_plan(text, 5, NULL, NULL, &answer, &file, error));
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT,
                "step:1:", tidemark_graph_plan("hello", 5, "step", &options, &answer, &file, error));
  CHECK(answer == NULL && file == NULL);
}

typedef struct watched {
  int asked, stop_at;
  double last;
  int falls;
} watched;

static int32_t watch(void* user, double share) {
  watched* seen = user;
  ++seen->asked;
  seen->falls += share < seen->last || share < 0 || share > 1;
  seen->last = share;
  return seen->asked == seen->stop_at;
}

/* A hundred ops there and back, each of which makes a byte. */
static char* write_chain(int64_t* bytes) {
  enum { kHalf = 50, kLine = 64 };
  char* const text = calloc(6 * kHalf + 1, kLine);
  char* end = text + sprintf(text, "G %d %d\n", 2 * kHalf, 3 * kHalf - 2);
  for (int v = 0; v < 2 * kHalf; ++v) end += sprintf(end, "N %d 1 1 %d o\n", v, v >= kHalf);
  for (int v = 1; v < 2 * kHalf; ++v) end += sprintf(end, "E %d %d\n", v - 1, v);
  for (int v = kHalf + 1; v < 2 * kHalf; ++v) end += sprintf(end, "E %d %d\n", 2 * kHalf - 1 - v, v);
  *bytes = end - text;
  return text;
}

/* It is asked before the search; what it says holds, and is said. Callers that know no watch give a smaller struct. */
static void test_watched_graph(void) {
  int64_t bytes = 0;
  char* const text = write_chain(&bytes);
  tidemark_buffer *answer = NULL, *same = NULL;
  watched none = {0}, at_once = {.stop_at = 1};
  tidemark_graph_options options = {.struct_size = sizeof options, .budget_bytes = 30, .effort_percent = 1};
  options.watch = watch;
  options.watch_user = &none;
  CHECK_OK(tidemark_graph_plan(text, bytes, "step", &options, &answer, NULL, error));
  CHECK(none.asked > 0 && none.falls == 0);
  CHECK(strstr((const char*)tidemark_buffer_data(answer), "\"stopped\"") == NULL);
  options.struct_size = offsetof(tidemark_graph_options, watch);
  CHECK_OK(tidemark_graph_plan(text, bytes, "step", &options, &same, NULL, error));
  CHECK(strcmp(strstr((const char*)tidemark_buffer_data(same), "\"captured\""),
               strstr((const char*)tidemark_buffer_data(answer), "\"captured\"")) == 0);
  tidemark_buffer_free(same);
  tidemark_buffer_free(answer);
  options.struct_size = sizeof options;
  options.watch_user = &at_once;
  options.effort_percent = 1000000; /* without a watch, for hours */
  CHECK_OK(tidemark_graph_plan(text, bytes, "step", &options, &answer, NULL, error));
  CHECK(at_once.asked == 1);
  CHECK(strstr((const char*)tidemark_buffer_data(answer), "\"stopped\": true") != NULL);
  tidemark_buffer_free(answer);
  free(text);
}

/* What a framework says for itself comes back unread. */
static void test_graph_of_a_framework(void) {
  const char* text =
      "{\"tidemark_graph\": 1, \"framework\": \"who? \\\"me\\\"\", \"storages\": [{\"bytes\": 8}],"
      " \"ops\": [{\"cost\": 1, \"reads\": [], \"writes\": [0]}]}";
  const char* wanted = "\"framework\": \"who? \\\"me\\\"\"";
  tidemark_graph_options options = {.struct_size = sizeof options, .budget_bytes = 64};
  tidemark_buffer *answer = NULL, *file = NULL, *again = NULL;
  tidemark_plan* plan = NULL;
  CHECK_OK(tidemark_graph_plan(text, (int64_t)strlen(text), "step", &options, &answer, &file, error));
  CHECK(strstr((const char*)tidemark_buffer_data(answer), wanted) != NULL);
  CHECK_OK(tidemark_plan_read_text(tidemark_buffer_data(file), tidemark_buffer_size(file), "file", &plan, error));
  CHECK_OK(tidemark_plan_answer(plan, &again, error));
  CHECK(strstr((const char*)tidemark_buffer_data(again), wanted) != NULL);
  tidemark_plan_free(plan);
  tidemark_buffer_free(answer);
  tidemark_buffer_free(file);
  tidemark_buffer_free(again);
}

/* ---- CPUs and memory near a device ------------------------------------------------------------------------------ */

static int says(const tidemark_buffer* report, const char* text) {
  return strstr((const char*)tidemark_buffer_data(report), text) != NULL;
}

static const char* main_cpus_of(const tidemark_buffer* report, char* kept) {
  const char* const found = strstr((const char*)tidemark_buffer_data(report), "\"main_cpus\":\"");
  CHECK(found != NULL && sscanf(found, "\"main_cpus\":\"%255[^\"]", kept) == 1);
  return kept;
}

/* The process is bound from here on: the last of the tests. */
static void test_process_binding(void) {
  tidemark_bind_options options = {.struct_size = sizeof options, .only_plan = 1};
  tidemark_buffer* report = NULL;
  cpu_set_t before, after;
  char kept[2][256];
  const char* bound_to;
  int differs;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "report is NULL", tidemark_bind_process(&options, NULL, error));
  CHECK_OK(tidemark_bind_process(&options, &report, error));
  CHECK(says(report, "\"bound\":false") && says(report, "\"simulated\":false") && says(report, "\"main_cpus\":\""));
  tidemark_buffer_free(report);
  options.devices = "unknown,unknown";
  options.rank = 2;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "rank is 2, and devices has 2",
                tidemark_bind_process(&options, &report, error));
  CHECK(report == NULL);
  options.rank = 4096;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "from 0 to 4095", tidemark_bind_process(&options, &report, error));
  options.rank = 0;
  options.devices = "gpu0";
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "would be right", tidemark_bind_process(&options, &report, error));
  options.devices = NULL;
  options.topology = "/no/such/folder";
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "/no/such/folder/sys", tidemark_bind_process(&options, &report, error));
  options.only_plan = 0;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "only_plan", tidemark_bind_process(&options, &report, error));
  options.topology = NULL;
  options.struct_size = 8;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size is 8", tidemark_bind_process(&options, &report, error));
  options.struct_size = sizeof options;

  CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
  options.devices = "unknown,unknown";
  options.rank = 1;
  CHECK_OK(tidemark_bind_process(&options, &report, error));
  CHECK(says(report, "\"bound\":true") && says(report, "\"device\":\"unknown\""));
  bound_to = main_cpus_of(report, kept[1]);
  tidemark_buffer_free(report);
  CHECK(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_COUNT(&after) >= 1 && (CPU_COUNT(&after) < CPU_COUNT(&before) || CPU_COUNT(&before) == 1));
  CPU_AND(&before, &before, &after);
  CHECK(CPU_EQUAL(&before, &after));                         /* never wider */
  CHECK_OK(tidemark_bind_process(&options, &report, error)); /* the same again */
  tidemark_buffer_free(report);
  options.only_plan = 1; /* of what the process had before, so of a share with the other CPUs */
  options.rank = 0;
  CHECK_OK(tidemark_bind_process(&options, &report, error));
  differs = strcmp(main_cpus_of(report, kept[0]), bound_to) != 0;
  tidemark_buffer_free(report);
  options.only_plan = 0;
  if (differs)
    CHECK_REFUSED(TIDEMARK_STATUS_INFEASIBLE, "bound to CPUs", tidemark_bind_process(&options, &report, error));
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  test_version_and_names();
  test_devices();
  test_queued_launches();
  test_struct_sizes();
  test_number_limits();
  test_any_struct_size();
  test_allocator();
  test_allocator_refusals();
  test_stream_limit();
  test_two_threads();
  test_plan(argv[1]);
  test_edited_plan(argv[1]);
  test_chunks(argv[2]);
  test_graph();
  test_watched_graph();
  test_graph_of_a_framework();
  test_process_binding();
  if (failures == 0) printf("all well\n");
  return failures == 0 ? 0 : 1;
}
