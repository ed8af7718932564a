/* Offloading between captured graphs from C: a framework that captures each piece of a step once and launches what it
 * captured step after step, without any of our C++. Usage: captured_test DEVICE [LIBRARY].
 *
 * A captured graph is a list of addresses, written down once. A launch checks that each of them holds what was written
 * there last, and writes something new. On the stand-ins for the vendors' libraries it is a function that runs in the
 * order of the stream alone (cuLaunchHostFunc, aclrtLaunchHostFunc); on `host` the device is synchronised before it, or
 * the calling thread is named instead of a stream. `sim` has no bytes. */
#define _DEFAULT_SOURCE

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tidemark/tidemark.h>
#include <unistd.h>

#include "tests/support/checks.h"

enum { kPieces = 8, kStorages = 6, kMostRanges = 64, kMostTouches = 8 };

/* ---- The step --------------------------------------------------------------------------------------------------- */

/* Four activations made in the forward and read in the backward, a weight that lives on the device and is away in the
 * middle, and a state that lives in host memory and is there for the last piece. */
static const tidemark_piece_touch kTouches[kStorages][kMostTouches] = {
    {{0, 0, 1, 0}, {7, 1, 0, 0}}, {{1, 0, 1, 0}, {6, 1, 0, 0}}, {{2, 0, 1, 0}, {5, 1, 0, 0}},
    {{3, 0, 1, 0}, {4, 1, 1, 0}}, {{0, 1, 0, 0}, {7, 1, 1, 0}}, {{7, 1, 1, 0}}};
static const tidemark_piece_span kAway[kStorages][1] = {{{1, 6}}, {{3, 4}}, {{0, 0}}, {{0, 0}}, {{2, 5}}, {{0, 5}}};

static void make_step(tidemark_captured_storage* storages, int64_t bytes) {
  static const int32_t touch_counts[kStorages] = {2, 2, 2, 2, 2, 1};
  static const int32_t away_counts[kStorages] = {1, 1, 0, 0, 1, 1};
  int s;
  memset(storages, 0, kStorages * sizeof *storages);
  for (s = 0; s < kStorages; ++s) {
    storages[s].bytes = bytes + 8 * s;
    storages[s].touches = kTouches[s];
    storages[s].touch_count = touch_counts[s];
    storages[s].away = away_counts[s] > 0 ? kAway[s] : NULL;
    storages[s].away_count = away_counts[s];
  }
  storages[4].between = TIDEMARK_BETWEEN_ON_DEVICE;
  storages[5].between = TIDEMARK_BETWEEN_IN_HOST;
}

/* ---- Graphs ----------------------------------------------------------------------------------------------------- */

struct Node {
  tidemark_address address;
  int64_t bytes;
  int storage, reads, writes;
};
struct Graph {
  int count;
  struct Node nodes[kStorages];
};
struct Launch {
  const struct Graph* graph;
  uint64_t read[kStorages], written[kStorages];
};

static atomic_llong checked_bytes;
static atomic_int wrong_reads;

static uint64_t word_of(uint64_t seed, int64_t index) {
  return (seed + 1) * 0x9E3779B97F4A7C15u + (uint64_t)index * 0xD1B54A32D192ED03u;
}

static void fill(unsigned char* at, int64_t bytes, uint64_t seed, int64_t first_word) {
  int64_t i;
  for (i = 0; i < bytes / 8; ++i) {
    const uint64_t word = word_of(seed, first_word + i);
    memcpy(at + i * 8, &word, 8);
  }
}

static void run(void* given) {
  struct Launch* const launch = given;
  int n;
  for (n = 0; n < launch->graph->count; ++n) {
    const struct Node* const node = &launch->graph->nodes[n];
    unsigned char* const at = (unsigned char*)(uintptr_t)node->address;
    int64_t i;
    if (node->reads) atomic_fetch_add(&checked_bytes, node->bytes);
    for (i = 0; node->reads && i < node->bytes / 8; ++i) {
      const uint64_t word = word_of(launch->read[n], i);
      if (memcmp(at + i * 8, &word, 8) == 0) continue;
      atomic_fetch_add(&wrong_reads, 1);
      break;
    }
    if (node->writes) fill(at, node->bytes, launch->written[n], 0);
  }
  free(launch);
}

/* ---- The framework ---------------------------------------------------------------------------------------------- */

struct Framework {
  tidemark_device* device;
  tidemark_stream stream;
  int (*launch)(void* stream, void (*function)(void*), void* argument); /* of the vendor; NULL: none */
  int has_bytes;
  int64_t granule_bytes;
  tidemark_captured_storage step[kStorages];
  struct Graph graphs[kPieces];
  uint64_t seeds[kStorages], newest_seed; /* of what a storage holds */
};

static int64_t free_bytes(struct Framework* f) {
  int64_t total = 0, free = 0;
  CHECK_OK(tidemark_device_memory(f->device, &total, &free, error));
  return free;
}

static void capture(struct Framework* f, tidemark_captured* captured, int piece) {
  struct Graph* const graph = &f->graphs[piece];
  int s, t;
  graph->count = 0;
  for (s = 0; s < kStorages; ++s)
    for (t = 0; t < f->step[s].touch_count; ++t) {
      const tidemark_piece_touch* const touch = &f->step[s].touches[t];
      struct Node* const node = &graph->nodes[graph->count];
      if (touch->piece != piece) continue;
      node->bytes = f->step[s].bytes / 8 * 8;
      node->storage = s;
      node->reads = touch->reads;
      node->writes = touch->writes;
      CHECK_OK(tidemark_captured_get_address(captured, s, &node->address, error));
      ++graph->count;
    }
}

static void launch(struct Framework* f, const struct Graph* graph) {
  struct Launch* const launch = calloc(1, sizeof *launch);
  int n;
  launch->graph = graph;
  for (n = 0; n < graph->count; ++n) {
    const int s = graph->nodes[n].storage;
    launch->read[n] = f->seeds[s];
    if (graph->nodes[n].writes) launch->written[n] = f->seeds[s] = ++f->newest_seed;
  }
  if (!f->has_bytes) {
    free(launch);
  } else if (f->launch != NULL) {
    CHECK(f->launch((void*)(uintptr_t)f->stream, run, launch) == 0);
  } else {
    if (f->stream != TIDEMARK_CALLING_THREAD) CHECK_OK(tidemark_device_synchronize(f->device, error));
    run(launch);
  }
}

/* What is there before the first step. */
static void fill_first(struct Framework* f, tidemark_captured* captured) {
  tidemark_host_range ranges[kMostRanges];
  tidemark_address weight = 0;
  int32_t count = 0, r;
  int64_t words = 0;
  CHECK_OK(tidemark_captured_get_host_side(captured, 5, ranges, kMostRanges, &count, error));
  CHECK(count > 0 && count <= kMostRanges);
  f->seeds[5] = ++f->newest_seed;
  for (r = 0; r < count && r < kMostRanges; ++r) {
    if (f->has_bytes) fill((unsigned char*)(uintptr_t)ranges[r].address, ranges[r].bytes, f->seeds[5], words);
    words += ranges[r].bytes / 8;
  }
  CHECK(words == f->step[5].bytes / 8);
  CHECK_OK(tidemark_captured_get_host_side(captured, 2, NULL, 0, &count, error));
  CHECK(count == 0); /* never away */
  CHECK_OK(tidemark_captured_get_address(captured, 4, &weight, error));
  f->seeds[4] = ++f->newest_seed;
  if (f->has_bytes) fill((unsigned char*)(uintptr_t)weight, f->step[4].bytes, f->seeds[4], 0);
}

static tidemark_captured* open_step(struct Framework* f, int64_t spare_bytes) {
  const tidemark_captured_options options = {.struct_size = sizeof options, .spare_bytes = spare_bytes};
  tidemark_captured* captured = NULL;
  CHECK_OK(tidemark_captured_open(f->device, kPieces, f->step, kStorages, &options, &captured, error));
  memset(f->graphs, 0, sizeof f->graphs);
  if (captured != NULL) fill_first(f, captured);
  return captured;
}

static tidemark_captured_figures figures_of(tidemark_captured* captured) {
  tidemark_captured_figures figures = {.struct_size = sizeof figures};
  CHECK_OK(tidemark_captured_get_figures(captured, &figures, error));
  return figures;
}

/* The first `pieces` of a step; all: its end as well. `free_now`: what the device has free all the while. */
static void play(struct Framework* f, tidemark_captured* captured, int pieces, int64_t free_now) {
  int p;
  for (p = 0; p < pieces; ++p) {
    CHECK_OK(tidemark_captured_before_piece(captured, p, f->stream, error));
    CHECK(free_bytes(f) == free_now);
    if (f->graphs[p].count == 0) capture(f, captured, p);
    launch(f, &f->graphs[p]);
  }
  if (pieces == kPieces) CHECK_OK(tidemark_captured_end_step(captured, error));
  CHECK(free_bytes(f) == free_now);
}

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

static void* library; /* the stand-in, or NULL */

/* C has no conversion of a pointer to a function; POSIX has this one. */
static void find_function(void* slot, const char* name) {
  void* const found = dlsym(library, name);
  CHECK(found != NULL);
  memcpy(slot, &found, sizeof found);
}

/* As a framework makes its device current on its thread. */
static void make_current(struct Framework* f, int is_cuda) {
  if (is_cuda) {
    int (*retain)(void** context, int device);
    int (*set)(void* context);
    void* context = NULL;
    find_function(&retain, "cuDevicePrimaryCtxRetain");
    find_function(&set, "cuCtxSetCurrent");
    find_function(&f->launch, "cuLaunchHostFunc");
    CHECK(retain(&context, 0) == 0 && set(context) == 0);
  } else {
    int (*set)(int32_t device);
    find_function(&set, "aclrtSetDevice");
    find_function(&f->launch, "aclrtLaunchHostFunc");
    CHECK(set(0) == 0);
  }
}

static void open_framework(struct Framework* f, const char* name, const char* path) {
  /* On `host`, copies that take milliseconds: what does not wait for them reads something else. */
  const int64_t rate = path == NULL ? 2000000000 : 0;
  const tidemark_device_options options = {.struct_size = sizeof options,
                                           .library = path,
                                           .capacity_bytes = path == NULL ? 256 << 20 : 0,
                                           .d2h_bytes_per_s = rate,
                                           .h2d_bytes_per_s = rate};
  tidemark_device_traits traits = {.struct_size = sizeof traits};
  memset(f, 0, sizeof *f);
  CHECK_OK(tidemark_device_open(name, &options, &f->device, error));
  CHECK_OK(tidemark_device_get_traits(f->device, &traits, error));
  CHECK_OK(tidemark_device_create_stream(f->device, &f->stream, error));
  f->has_bytes = traits.has_bytes;
  f->granule_bytes = traits.granule_bytes;
  make_step(f->step, traits.granule_bytes + 4096); /* two granules each */
  if (path != NULL) make_current(f, strcmp(name, "cuda") == 0);
}

static int64_t stand_in(const char* key) {
  int64_t (*get)(const char* key);
  find_function(&get, "stand_in_get");
  return get(key);
}

static void close_framework(struct Framework* f) {
  CHECK_OK(tidemark_device_destroy_stream(f->device, f->stream, error));
  tidemark_device_close(f->device);
  if (library == NULL) return;
  CHECK(stand_in("violations") == 0);
  CHECK(stand_in("mappings") == 0 && stand_in("physicals") == 0 && stand_in("reservations") == 0);
  CHECK(stand_in("events") == 0 && stand_in("operations") == 0);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

static void test_steps(struct Framework* f, int64_t spare_bytes) {
  const int64_t before = free_bytes(f), checked = atomic_load(&checked_bytes);
  tidemark_captured* const captured = open_step(f, spare_bytes);
  const int64_t free_now = free_bytes(f);
  tidemark_captured_figures figures;
  int i;
  if (captured == NULL) return;
  figures = figures_of(captured);
  CHECK(before - free_now == figures.peak_bytes);
  CHECK(figures.peak_bytes == 6 * f->granule_bytes + spare_bytes); /* three storages */
  CHECK(figures.address_bytes == 12 * f->granule_bytes);
  CHECK(figures.pinned_bytes > 0 && figures.steps == 0 && figures.copies_out == 0);
  CHECK(figures.late_waits_a_step <= figures.host_waits_a_step && figures.host_waits_a_step > 0);
  for (i = 0; i < 4; ++i) play(f, captured, kPieces, free_now);
  CHECK_OK(tidemark_device_synchronize(f->device, error));
  figures = figures_of(captured);
  CHECK(figures.steps == 4 && figures.host_waits == 4 * figures.host_waits_a_step);
  CHECK(figures.copies_out == 4 * 4 && figures.copies_in == 4 * 4);
  CHECK(figures.copied_out_bytes == figures.copied_in_bytes);
  CHECK(figures.moves > 0 && figures.moved_granules >= figures.moves);
  CHECK(!f->has_bytes || atomic_load(&checked_bytes) - checked > 4 * 7 * f->granule_bytes);
  CHECK(atomic_load(&wrong_reads) == 0);
  tidemark_captured_close(captured);
  CHECK(free_bytes(f) == before);
}

/* Pieces of one step on a stream and on the calling thread: neither needs the other to be told. */
static void test_calling_thread(struct Framework* f) {
  const tidemark_stream stream = f->stream;
  tidemark_captured* captured;
  int i, p;
  f->stream = TIDEMARK_CALLING_THREAD;
  test_steps(f, 0);
  captured = open_step(f, 0);
  for (i = 0; i < 3 && captured != NULL; ++i) {
    for (p = 0; p < kPieces; ++p) {
      f->stream = (p + i) % 3 == 0 ? stream : TIDEMARK_CALLING_THREAD;
      CHECK_OK(tidemark_captured_before_piece(captured, p, f->stream, error));
      if (f->graphs[p].count == 0) capture(f, captured, p);
      launch(f, &f->graphs[p]);
    }
    CHECK_OK(tidemark_captured_end_step(captured, error));
  }
  CHECK(atomic_load(&wrong_reads) == 0);
  tidemark_captured_close(captured);
  f->stream = stream;
}

static void test_closing_in_a_step(struct Framework* f) {
  const int64_t before = free_bytes(f);
  int pieces;
  for (pieces = 1; pieces < kPieces; ++pieces) {
    tidemark_captured* const captured = open_step(f, 0);
    if (captured == NULL) return;
    play(f, captured, kPieces, free_bytes(f));
    play(f, captured, pieces, free_bytes(f));
    tidemark_captured_close(captured);
    CHECK(free_bytes(f) == before && atomic_load(&wrong_reads) == 0);
  }
}

static void test_turns(struct Framework* f) {
  tidemark_captured* const captured = open_step(f, 0);
  int64_t free_now;
  if (captured == NULL) return;
  free_now = free_bytes(f);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "piece 1 is announced where piece 0 is due",
                tidemark_captured_before_piece(captured, 1, f->stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "piece -1 is announced where piece 0 is due",
                tidemark_captured_before_piece(captured, -1, f->stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "the step is ended where piece 0 is due",
                tidemark_captured_end_step(captured, error));
  play(f, captured, 3, free_now);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "piece 2 is announced where piece 3 is due",
                tidemark_captured_before_piece(captured, 2, f->stream, error));
  tidemark_captured_close(captured);
}

/* A call of another thread while one waits for the piece right before, which the test holds up. */
static atomic_int is_held_up, may_go_on;
static void hold_up(void* nothing) {
  (void)nothing;
  atomic_store(&is_held_up, 1);
  while (atomic_load(&may_go_on) == 0) usleep(100);
}
struct Caller {
  struct Framework* framework;
  tidemark_captured* captured;
};
static void* call_from_thread(void* given) {
  struct Caller* const caller = given;
  tidemark_status status;
  do { /* the other's call may be the first of the two */
    tidemark_error* error = NULL;
    status = tidemark_captured_before_piece(caller->captured, 1, caller->framework->stream, &error);
    tidemark_error_free(error);
  } while (status == TIDEMARK_STATUS_INVALID);
  CHECK(status == TIDEMARK_STATUS_OK);
  return NULL;
}

static void test_overlapping_calls(struct Framework* f) {
  const tidemark_piece_touch touches[2] = {{0, 0, 1, 0}, {1, 0, 1, 0}};
  tidemark_captured_storage storages[2];
  tidemark_captured_figures figures = {.struct_size = sizeof figures};
  struct Caller caller = {f, NULL};
  tidemark_error* error = NULL;
  pthread_t thread;
  int s, tries, overlaps = 0;
  memset(storages, 0, sizeof storages);
  for (s = 0; s < 2; ++s) {
    storages[s].bytes = f->granule_bytes;
    storages[s].touches = &touches[s];
    storages[s].touch_count = 1;
  }
  CHECK_OK(tidemark_captured_open(f->device, 2, storages, 2, NULL, &caller.captured, error));
  CHECK(figures_of(caller.captured).late_waits_a_step == 2);
  CHECK_OK(tidemark_captured_before_piece(caller.captured, 0, f->stream, error));
  CHECK(f->launch((void*)(uintptr_t)f->stream, hold_up, NULL) == 0);
  CHECK(pthread_create(&thread, NULL, call_from_thread, &caller) == 0);
  for (tries = 0; tries < 50000 && overlaps == 0; ++tries) {
    if (tidemark_captured_get_figures(caller.captured, &figures, &error) == TIDEMARK_STATUS_INVALID) {
      ++overlaps;
      CHECK(strstr(tidemark_error_message(error), "another thread is inside a call") != NULL);
    }
    tidemark_error_free(error);
    usleep(100);
  }
  CHECK(overlaps == 1 && atomic_load(&is_held_up) == 1);
  atomic_store(&may_go_on, 1);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_OK(tidemark_captured_end_step(caller.captured, error));
  tidemark_captured_close(caller.captured);
}

static void test_refused_steps(struct Framework* f) {
  const tidemark_piece_touch read_first = {0, 1, 0, 0}, nothing = {0, 0, 0, 0};
  const tidemark_piece_span touched = {2, 7}, backward = {4, 2};
  tidemark_captured_storage step[kStorages];
  tidemark_captured_options options = {.struct_size = sizeof options};
  tidemark_captured* captured = NULL;
#define REFUSED(status, says, member, value)                                                                          \
  do {                                                                                                                \
    memcpy(step, f->step, sizeof step);                                                                               \
    step[1].member = value;                                                                                           \
    CHECK_REFUSED(status, says, tidemark_captured_open(f->device, kPieces, step, kStorages, NULL, &captured, error)); \
    CHECK(captured == NULL);                                                                                          \
  } while (0)
  REFUSED(TIDEMARK_STATUS_INVALID, "storage 1: bytes is 0; it is from 1 to 2^46", bytes, 0);
  REFUSED(TIDEMARK_STATUS_INVALID, "storages 0 to 1 have more than 2^46 bytes", bytes, (int64_t)1 << 46);
  REFUSED(TIDEMARK_STATUS_INVALID, "storage 1: between is 3; it is one of TIDEMARK_BETWEEN_*", between, 3);
  REFUSED(TIDEMARK_STATUS_INVALID, "storage 1: touch_count is 2; it is the length of touches", touches, NULL);
  REFUSED(TIDEMARK_STATUS_INVALID, "storage 1: touch_count is 9; it is", touch_count, 9);
  REFUSED(TIDEMARK_STATUS_INVALID, "storage 1: away_count is -1; it is the length of away", away_count, -1);
  REFUSED(TIDEMARK_STATUS_BAD_INPUT, "storage 1: no piece touches it; leave it out", touch_count, 0);
  REFUSED(TIDEMARK_STATUS_BAD_INPUT, "storage 1: a piece touches it while it is away in pieces 2 to 7", away, &touched);
  REFUSED(TIDEMARK_STATUS_BAD_INPUT, "storage 1: gaps must be by piece", away, &backward);
#undef REFUSED
  memcpy(step, f->step, sizeof step);
  step[0].touches = &read_first;
  step[0].touch_count = 1;
  step[0].away_count = 0;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "storage 0: piece 0 reads it before any writes it",
                tidemark_captured_open(f->device, kPieces, step, 1, NULL, &captured, error));
  step[0].touches = &nothing;
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "storage 0: the touch of piece 0 must read, write or both",
                tidemark_captured_open(f->device, kPieces, step, 1, NULL, &captured, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "pieces is 0; a step has from 1 to 65536",
                tidemark_captured_open(f->device, 0, f->step, kStorages, NULL, &captured, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "storage_count is 6; it is the length of storages",
                tidemark_captured_open(f->device, kPieces, NULL, kStorages, NULL, &captured, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "device is NULL",
                tidemark_captured_open(NULL, kPieces, f->step, kStorages, NULL, &captured, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "captured is NULL",
                tidemark_captured_open(f->device, kPieces, f->step, kStorages, NULL, NULL, error));
  options.spare_bytes = -1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "spare_bytes is -1",
                tidemark_captured_open(f->device, kPieces, f->step, kStorages, &options, &captured, error));
  options.struct_size = 4;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size is 4",
                tidemark_captured_open(f->device, kPieces, f->step, kStorages, &options, &captured, error));
}

static void test_refused_calls(struct Framework* f) {
  tidemark_captured* const captured = open_step(f, 0);
  tidemark_captured_figures figures = {.struct_size = 12};
  tidemark_address address = 7;
  int32_t count = 7;
  if (captured == NULL) return;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "storage is 6; there are 6, numbered from 0",
                tidemark_captured_get_address(captured, kStorages, &address, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "storage is -1",
                tidemark_captured_get_host_side(captured, -1, NULL, 0, &count, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "capacity is 3",
                tidemark_captured_get_host_side(captured, 5, NULL, 3, &count, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "address is NULL", tidemark_captured_get_address(captured, 0, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "captured is NULL", tidemark_captured_get_address(NULL, 0, &address, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "captured is NULL", tidemark_captured_before_piece(NULL, 0, 0, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "captured is NULL", tidemark_captured_end_step(NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size is 12", tidemark_captured_get_figures(captured, &figures, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "figures is NULL", tidemark_captured_get_figures(captured, NULL, error));
  CHECK(address == 7 && count == 7);
  tidemark_captured_close(captured);
  tidemark_captured_close(NULL);
}

static void test_too_little_memory(void) {
  const tidemark_device_options options = {.struct_size = sizeof options, .capacity_bytes = 4 << 20};
  struct Framework f;
  tidemark_captured* captured = NULL;
  memset(&f, 0, sizeof f);
  CHECK_OK(tidemark_device_open("host", &options, &f.device, error));
  make_step(f.step, 3 << 20);
  CHECK_REFUSED(TIDEMARK_STATUS_INFEASIBLE, "captured graphs: taking 12.00 MiB of device memory: out of memory",
                tidemark_captured_open(f.device, kPieces, f.step, kStorages, NULL, &captured, error));
  tidemark_device_close(f.device);
}

int main(int count, char** arguments) {
  struct Framework f;
  const char* const path = count > 2 ? arguments[2] : NULL;
  if (count < 2) {
    fprintf(stderr, "usage: captured_test DEVICE [LIBRARY]\n");
    return 2;
  }
  if (path != NULL) library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  CHECK(path == NULL || library != NULL);
  open_framework(&f, arguments[1], path);
  if (failures > 0) return 1;
  test_steps(&f, 0);
  test_steps(&f, 2 * f.granule_bytes);
  test_closing_in_a_step(&f);
  test_turns(&f);
  test_refused_steps(&f);
  test_refused_calls(&f);
  if (strcmp(arguments[1], "host") == 0) test_calling_thread(&f);
  if (path != NULL) test_overlapping_calls(&f);
  close_framework(&f);
  test_too_little_memory();
  if (failures > 0) fprintf(stderr, "%d checks failed\n", failures);
  return failures > 0;
}
