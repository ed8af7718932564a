/* Sessions from C: a framework that plays a captured step and its plan on a device, without any of our C++.
 * Usage: session_test PLAN STEP KEPT RECOMPUTED DEVICE [LIBRARY]: the plan file of a captured step, that step as JSON
 * with a storage or an op a line, plan files of a model job that keep everything and recompute much, the name of a
 * device and the stand-in that is its library.
 *
 * On the stand-ins device memory is memory of this process, and a kernel is a function that the vendor's library calls
 * in the order of the framework's stream (cuLaunchHostFunc, aclrtLaunchHostFunc): what orders it against the copies is
 * the stream alone, as for a kernel. Nothing waits for the device before the end of a step. `host` has no such function
 * for the stream of another: the device is synchronised before a kernel runs here, which orders more than a stream
 * does. `sim` has no bytes. Every byte that a kernel reads is checked. */
#define _DEFAULT_SOURCE

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidemark/tidemark.h>
#include <unistd.h>

#include "tests/support/checks.h"

enum { kMostStorages = 64, kMostOps = 64, kMostReads = 4, kMostTouches = 8 };

/* ---- The step --------------------------------------------------------------------------------------------------- */

struct Op {
  int reads[kMostReads];
  int read_count;
  int writes; /* one storage */
  int is_forward;
};
struct Step {
  int storage_count, op_count;
  int64_t bytes[kMostStorages];
  int persists[kMostStorages];
  int made_by[kMostStorages];      /* op, or -1: an input */
  int last_use[kMostStorages];     /* op */
  int last_forward[kMostStorages]; /* op of forward that touches it last */
  struct Op ops[kMostOps];
};

static struct Step step;

static int numbers_in(const char* list, int* numbers, int most) {
  int count = 0;
  while (*list != ']' && count < most) {
    char* end = NULL;
    const long number = strtol(list, &end, 10);
    if (end == list) {
      ++list;
      continue;
    }
    numbers[count++] = (int)number;
    list = end;
  }
  return count;
}

static void touch_in_step(int storage, int op) {
  step.last_use[storage] = op;
  if (step.ops[op].is_forward) step.last_forward[storage] = op;
}

static void read_step(const char* path) {
  char line[1024];
  FILE* file = fopen(path, "r");
  int s, i;
  CHECK(file != NULL);
  for (s = 0; s < kMostStorages; ++s) step.made_by[s] = -1;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    const char* const bytes = strstr(line, "\"bytes\": ");
    const char* const reads = strstr(line, "\"reads\": [");
    const char* const writes = strstr(line, "\"writes\": [");
    if (bytes != NULL && step.storage_count < kMostStorages) {
      step.bytes[step.storage_count] = strtoll(bytes + strlen("\"bytes\": "), NULL, 10);
      step.persists[step.storage_count++] = strstr(line, "\"until_end\": true") != NULL;
    } else if (reads != NULL && writes != NULL && step.op_count < kMostOps) {
      struct Op* const op = &step.ops[step.op_count];
      op->read_count = numbers_in(strchr(reads, '['), op->reads, kMostReads);
      CHECK(numbers_in(strchr(writes, '['), &op->writes, 1) == 1);
      op->is_forward = strstr(line, "\"phase\": \"forward\"") != NULL;
      for (i = 0; i < op->read_count; ++i) touch_in_step(op->reads[i], step.op_count);
      touch_in_step(op->writes, step.op_count);
      step.made_by[op->writes] = step.op_count++;
    }
  }
  if (file != NULL) fclose(file);
  CHECK(step.op_count == 41 && step.storage_count == 52);
}

static int reads(int op, int storage) {
  int i;
  for (i = 0; i < step.ops[op].read_count; ++i)
    if (step.ops[op].reads[i] == storage) return 1;
  return 0;
}

/* Behind every block of the device, and part of what the plan has for a storage. */
static int64_t tail_pad_bytes;

static int64_t bytes_of(int storage) {
  return step.bytes[storage] - tail_pad_bytes;
}

/* ---- Kernels ---------------------------------------------------------------------------------------------------- */

struct Kernel {
  int count;
  struct {
    unsigned char* at;
    int64_t bytes;
    uint64_t seed;
    int is_write;
  } touches[kMostTouches];
};

static atomic_llong checked_bytes;
static atomic_int wrong_reads;

static uint64_t word_of(uint64_t seed, int64_t index) {
  return (seed + 1) * 0x9E3779B97F4A7C15u + (uint64_t)index * 0xD1B54A32D192ED03u;
}

static void run_kernel(void* given) {
  struct Kernel* const kernel = given;
  int t;
  for (t = 0; t < kernel->count; ++t) {
    unsigned char* const at = kernel->touches[t].at;
    int64_t i;
    for (i = 0; i < kernel->touches[t].bytes / 8; ++i) {
      const uint64_t word = word_of(kernel->touches[t].seed, i);
      if (kernel->touches[t].is_write) {
        memcpy(at + i * 8, &word, 8);
      } else if (memcmp(at + i * 8, &word, 8) != 0) {
        atomic_fetch_add(&wrong_reads, 1);
        break;
      }
    }
    if (!kernel->touches[t].is_write) atomic_fetch_add(&checked_bytes, kernel->touches[t].bytes);
  }
  free(kernel);
}

/* ---- The framework ---------------------------------------------------------------------------------------------- */

struct Block {
  tidemark_address address;
  int storage;
  int refs;
  int is_lent; /* the session has one of the references */
};

/* The tensors of one step. */
struct Pass {
  int version;
  struct Block* local[kMostStorages];
  tidemark_saved* saved[kMostStorages][kMostOps];
};

struct Framework {
  tidemark_device* device;
  tidemark_allocator* allocator;
  tidemark_stream stream;
  int (*launch)(void* stream, void (*function)(void*), void* argument); /* of the vendor; NULL: none */
  int has_bytes;
  struct Block* resident[kMostStorages];
  struct Pass* pass; /* whose ops are issued */
  int versions;
  int64_t live_bytes, peak_bytes;
  int64_t lent, hand_overs, releases;
  int refuse_blocks, refuse_rebuilds, spoil_rebuilds; /* so many times */
  int wrong_block;                                    /* which, counted from 1, is too small; 0: none */
  int adopted, adopted_as;                            /* number in the session, and the storage that it is like */
  int may_fail;                                       /* what a session refuses is asked for once more */
  int refused[TIDEMARK_STATUS_INTERNAL + 1];          /* by status */
  int stops_at_refusal;
  int is_broken; /* nothing is issued any more */
};

static struct Block* new_block(struct Framework* f, int storage) {
  struct Block* const block = calloc(1, sizeof *block);
  const tidemark_stream stream = f->stream == TIDEMARK_CALLING_THREAD ? 0 : f->stream;
  block->storage = storage;
  block->refs = 1;
  CHECK_OK(tidemark_allocator_allocate(f->allocator, bytes_of(storage), stream, 0, &block->address, error));
  f->live_bytes += bytes_of(storage);
  if (f->live_bytes > f->peak_bytes) f->peak_bytes = f->live_bytes;
  return block;
}

static void drop(struct Framework* f, struct Block* block) {
  if (block == NULL || --block->refs > 0) return;
  f->live_bytes -= bytes_of(block->storage);
  CHECK_OK(tidemark_allocator_release(f->allocator, block->address, error));
  free(block);
}

static tidemark_block lend(struct Framework* f, struct Block* block) {
  CHECK(!block->is_lent);
  block->is_lent = 1;
  ++f->lent;
  ++f->hand_overs;
  return (tidemark_block){.handle = block, .address = block->address, .bytes = bytes_of(block->storage)};
}

static struct Block* reclaim(struct Framework* f, tidemark_block given) {
  struct Block* const block = given.handle;
  CHECK(block != NULL && block->is_lent && block->address == given.address);
  block->is_lent = 0;
  --f->lent;
  ++f->releases;
  return block;
}

static uint64_t seed_of(const struct Pass* pass, int storage) {
  return (uint64_t)storage + (step.persists[storage] ? 0 : 1000 * (uint64_t)pass->version);
}

static void touch(struct Kernel* kernel, const struct Pass* pass, const struct Block* block, int is_write) {
  const int t = kernel->count++;
  CHECK(t < kMostTouches);
  kernel->touches[t].at = (unsigned char*)(uintptr_t)block->address;
  kernel->touches[t].bytes = bytes_of(block->storage);
  kernel->touches[t].seed = seed_of(pass, block->storage);
  kernel->touches[t].is_write = is_write;
}

static void launch(struct Framework* f, struct Kernel* kernel) {
  if (!f->has_bytes || f->is_broken) {
    free(kernel);
  } else if (f->launch != NULL) {
    CHECK(f->launch((void*)(uintptr_t)f->stream, run_kernel, kernel) == 0);
  } else {
    if (f->stream != TIDEMARK_CALLING_THREAD) CHECK_OK(tidemark_device_synchronize(f->device, error));
    run_kernel(kernel);
  }
}

static struct Block* find(const struct Framework* f, int storage) {
  return f->pass->local[storage] != NULL ? f->pass->local[storage] : f->resident[storage];
}

static tidemark_status rebuild(void* user, const tidemark_rebuild* again) {
  struct Framework* const f = user;
  const struct Op* const op = &step.ops[again->op];
  struct Kernel* kernel;
  struct Block* block;
  int i, n;
  CHECK(again->struct_size == sizeof *again && again->stream == f->stream);
  CHECK(again->wanted_count == 1 && again->wanted[0] == op->writes);
  if (f->refuse_rebuilds > 0) {
    --f->refuse_rebuilds;
    return TIDEMARK_STATUS_OUT_OF_MEMORY;
  }
  kernel = calloc(1, sizeof *kernel);
  for (i = 0; i < op->read_count; ++i) {
    block = find(f, op->reads[i]);
    for (n = 0; n < again->source_count; ++n)
      if (again->sources[n].storage == op->reads[i]) block = again->sources[n].block.handle;
    CHECK(block != NULL);
    if (block != NULL) touch(kernel, f->pass, block, 0);
  }
  block = new_block(f, op->writes);
  again->made[0] = lend(f, block);
  if (f->spoil_rebuilds > 0) { /* it fails when the room is there and the content is not */
    --f->spoil_rebuilds;
    free(kernel);
    return TIDEMARK_STATUS_COPY_FAILED;
  }
  touch(kernel, f->pass, block, 1);
  launch(f, kernel);
  return TIDEMARK_STATUS_OK;
}

static tidemark_block take_block(void* user, int32_t storage, int64_t bytes, tidemark_stream stream) {
  struct Framework* const f = user;
  tidemark_block block;
  if (storage >= step.storage_count) {
    CHECK(storage == f->adopted);
    storage = f->adopted_as;
  }
  CHECK(stream == f->stream && bytes == bytes_of(storage));
  if (f->refuse_blocks > 0) {
    --f->refuse_blocks;
    return (tidemark_block){.handle = NULL};
  }
  block = lend(f, new_block(f, storage));
  if (f->wrong_block > 0 && f->wrong_block-- == 1) block.bytes = bytes - 1;
  return block;
}

/* The stream is the framework's, or the calling thread where a call names none: blocks are freed behind what their own
 * stream was given either way. */
static void release_block(void* user, tidemark_block block, tidemark_stream stream) {
  struct Framework* const f = user;
  CHECK(stream == f->stream || stream == TIDEMARK_CALLING_THREAD);
  drop(f, reclaim(f, block));
}

static int32_t is_idle(void* user, void* handle) {
  const struct Block* const block = handle;
  (void)user;
  return block->refs == 1;
}

static tidemark_session_options options_of(struct Framework* f) {
  const tidemark_session_options options = {
      .struct_size = sizeof options, .rebuild = rebuild, .take_block = take_block, .release = release_block, .user = f};
  return options;
}

static tidemark_session* open_session(struct Framework* f, const tidemark_plan* plan) {
  const tidemark_session_options options = options_of(f);
  tidemark_session* session = NULL;
  CHECK_OK(tidemark_session_open(plan, 0, f->device, &options, &session, error));
  return session;
}

/* Whether a session did as asked. */
static int is_ok(struct Framework* f, tidemark_status status, tidemark_error* error) {
  if (status != TIDEMARK_STATUS_OK) {
    ++f->refused[status];
    f->is_broken |= f->stops_at_refusal;
    if (!f->may_fail) {
      fprintf(stderr, "session: %s\n", tidemark_error_message(error));
      ++failures;
    }
  }
  tidemark_error_free(error);
  return status == TIDEMARK_STATUS_OK;
}

static void begin_pass(struct Framework* f, tidemark_session* session, struct Pass* pass) {
  struct Kernel* const kernel = calloc(1, sizeof *kernel);
  struct Kernel* weights = calloc(1, sizeof *weights);
  int s;
  memset(pass, 0, sizeof *pass);
  pass->version = ++f->versions;
  f->pass = pass;
  CHECK_OK(tidemark_session_begin_step(session, f->stream, error));
  CHECK_OK(tidemark_session_expect_requests(session, TIDEMARK_REQUESTS_OTHER, error));
  for (s = 0; s < step.storage_count; ++s) {
    if (step.made_by[s] >= 0) continue;
    if (!step.persists[s]) {
      pass->local[s] = new_block(f, s);
      touch(kernel, pass, pass->local[s], 1);
    } else if (f->resident[s] == NULL) {
      f->resident[s] = new_block(f, s);
      if (weights->count == kMostTouches) {
        launch(f, weights);
        weights = calloc(1, sizeof *weights);
      }
      touch(weights, pass, f->resident[s], 1);
    }
  }
  launch(f, weights);
  launch(f, kernel);
  CHECK_OK(tidemark_session_expect_requests(session, TIDEMARK_REQUESTS_PLANNED, error));
}

/* Backward asks for what forward has saved. */
static struct Block* use_saved(struct Framework* f, tidemark_saved* saved, int* is_mine) {
  int tries;
  *is_mine = 0;
  CHECK(saved != NULL);
  for (tries = 0; tries < 3 && saved != NULL && !f->is_broken; ++tries) {
    tidemark_block block = {NULL, 0, 0};
    int32_t handed_over = 0;
    tidemark_error* error = NULL;
    const tidemark_status status = tidemark_session_use(saved, 0, f->stream, &block, &handed_over, &error);
    if (!is_ok(f, status, error)) continue;
    *is_mine = handed_over != 0;
    return handed_over != 0 ? reclaim(f, block) : block.handle;
  }
  return NULL;
}

static void save_for_backward(struct Framework* f, tidemark_session* session, int storage) {
  int op;
  for (op = 0; op < step.op_count; ++op)
    if (!step.ops[op].is_forward && reads(op, storage))
      CHECK_OK(tidemark_session_save(session, storage, op, op, &f->pass->saved[storage][op], error));
}

/* What the op reads, of the step's own or of what forward has saved. */
struct Inputs {
  struct Block* mine[kMostReads]; /* handed over */
  tidemark_saved* used[kMostReads];
};

static void read_inputs(struct Framework* f, int number, struct Kernel* kernel, struct Inputs* inputs) {
  const struct Op* const op = &step.ops[number];
  int i, is_mine;
  memset(inputs, 0, sizeof *inputs);
  for (i = 0; i < op->read_count && !f->is_broken; ++i) {
    const int s = op->reads[i];
    struct Block* block = find(f, s);
    if (block == NULL) {
      inputs->used[i] = f->pass->saved[s][number];
      f->pass->saved[s][number] = NULL;
      block = use_saved(f, inputs->used[i], &is_mine);
      if (is_mine) inputs->mine[i] = block;
    }
    CHECK(block != NULL || f->is_broken);
    if (block != NULL) touch(kernel, f->pass, block, 0);
  }
}

/* `session`: NULL where it is closed, or has begun a later step. */
static void issue(struct Framework* f, tidemark_session* session, struct Pass* pass, int number) {
  const int written = step.ops[number].writes;
  struct Kernel* const kernel = calloc(1, sizeof *kernel);
  struct Inputs inputs;
  tidemark_error* error = NULL;
  int i, s;
  f->pass = pass;
  if (session != NULL) {
    const tidemark_status status = tidemark_session_op(session, number, f->stream, &error);
    (void)is_ok(f, status, error);
  }
  read_inputs(f, number, kernel, &inputs);
  if (!f->is_broken) {
    pass->local[written] = new_block(f, written);
    touch(kernel, pass, pass->local[written], 1);
  }
  launch(f, kernel);
  if (!f->is_broken && session != NULL && tidemark_session_is_managed(session, written)) {
    ++pass->local[written]->refs;
    CHECK_OK(tidemark_session_take(session, written, lend(f, pass->local[written]), f->stream, error));
    CHECK(tidemark_session_find(session, pass->local[written]) == written);
    save_for_backward(f, session, written);
  }
  for (i = 0; i < kMostReads; ++i) {
    tidemark_session_free(inputs.used[i]);
    drop(f, inputs.mine[i]);
  }
  for (s = 0; s < step.storage_count; ++s) {
    const int is_managed = session != NULL && tidemark_session_is_managed(session, s);
    if (step.made_by[s] < 0 || (is_managed ? step.last_forward[s] : step.last_use[s]) != number) continue;
    drop(f, pass->local[s]);
    pass->local[s] = NULL;
  }
}

static void free_saved(struct Pass* pass) {
  int s, op;
  for (s = 0; s < step.storage_count; ++s)
    for (op = 0; op < step.op_count; ++op) tidemark_session_free(pass->saved[s][op]);
  memset(pass->saved, 0, sizeof pass->saved);
}

/* Also of a step whose backward is left out, or not complete. */
static void drop_pass(struct Framework* f, struct Pass* pass) {
  int s;
  free_saved(pass);
  for (s = 0; s < step.storage_count; ++s) drop(f, pass->local[s]);
  memset(pass->local, 0, sizeof pass->local);
}

static void check_contents(struct Framework* f) {
  if (!f->is_broken) CHECK_OK(tidemark_device_synchronize(f->device, error));
  CHECK(atomic_load(&wrong_reads) == 0);
  atomic_store(&wrong_reads, 0);
}

static void end_pass(struct Framework* f, tidemark_session* session, struct Pass* pass) {
  drop_pass(f, pass);
  CHECK_OK(tidemark_session_end_step(session, f->stream, error));
  check_contents(f);
}

static void issue_phase(struct Framework* f, tidemark_session* session, struct Pass* pass, int forward) {
  int op;
  for (op = 0; op < step.op_count; ++op)
    if (step.ops[op].is_forward == forward && !f->is_broken) issue(f, session, pass, op);
}

static void play(struct Framework* f, tidemark_session* session) {
  struct Pass pass;
  begin_pass(f, session, &pass);
  issue_phase(f, session, &pass, 1);
  issue_phase(f, session, &pass, 0);
  end_pass(f, session, &pass);
}

static tidemark_session_report report_of(const tidemark_session* session) {
  tidemark_session_report report = {.struct_size = sizeof report};
  CHECK_OK(tidemark_session_get_report(session, &report, error));
  return report;
}

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

static void* library; /* the stand-in, or NULL */
static int64_t (*stand_in_get)(const char* key);
static void (*stand_in_set)(const char* key, int64_t value);
static void (*stand_in_fail_call)(const char* call, int64_t skip, int code);

/* C has no conversion of a pointer to a function; POSIX has this one. */
static void find_function(void* slot, const char* name) {
  void* const found = dlsym(library, name);
  CHECK(found != NULL);
  memcpy(slot, &found, sizeof found);
}

static void open_library(const char* path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  CHECK(library != NULL);
  find_function(&stand_in_get, "stand_in_get");
  find_function(&stand_in_set, "stand_in_set");
  find_function(&stand_in_fail_call, "stand_in_fail_call");
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
  tidemark_device_options options = {.struct_size = sizeof options, .library = path};
  tidemark_device_traits traits = {.struct_size = sizeof traits};
  memset(f, 0, sizeof *f);
  CHECK_OK(tidemark_device_open(name, &options, &f->device, error));
  CHECK_OK(tidemark_device_get_traits(f->device, &traits, error));
  CHECK_OK(tidemark_allocator_create(f->device, NULL, &f->allocator, error));
  CHECK_OK(tidemark_device_create_stream(f->device, &f->stream, error));
  f->has_bytes = traits.has_bytes;
  tail_pad_bytes = traits.tail_pad_bytes;
  if (path != NULL) make_current(f, strcmp(name, "cuda") == 0);
}

static void close_framework(struct Framework* f) {
  int s;
  for (s = 0; s < step.storage_count; ++s) drop(f, f->resident[s]);
  CHECK(f->lent == 0 && f->hand_overs == f->releases && f->live_bytes == 0);
  tidemark_allocator_free(f->allocator);
  if (f->stream != TIDEMARK_CALLING_THREAD) (void)tidemark_device_destroy_stream(f->device, f->stream, NULL);
  tidemark_device_close(f->device);
  if (library == NULL) return;
  CHECK(stand_in_get("violations") == 0);
  CHECK(stand_in_get("blocks") == 0 && stand_in_get("mappings") == 0 && stand_in_get("physicals") == 0);
  CHECK(stand_in_get("reservations") == 0 && stand_in_get("events") == 0 && stand_in_get("operations") == 0);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

static void test_following(struct Framework* f, const tidemark_plan* plan) {
  tidemark_rank_figures figures = {.struct_size = sizeof figures};
  tidemark_session* const session = open_session(f, plan);
  tidemark_session_report report;
  int i, managed = 0, rebuilt = 0;
  for (i = 0; i < step.storage_count; ++i) managed += tidemark_session_is_managed(session, i);
  for (i = 0; i < step.op_count; ++i) rebuilt += tidemark_session_is_rebuilt(session, i);
  CHECK(managed > rebuilt && rebuilt > 0);
  for (i = 0; i < 4; ++i) play(f, session);
  report = report_of(session);
  CHECK(report.steps == 4 && report.steps_open == 0);
  CHECK(report.departures == 0 && report.kept_for_host == 0);
  CHECK(report.rebuilt >= 4 * rebuilt && report.copies_out > 0 && report.copies_in > 0);
  CHECK(report.pieces == report.copies_out + report.copies_in && report.waits > 0);
  CHECK(report.pinned_peak_bytes > 0 && report.pinned_bytes >= report.pinned_peak_bytes);
  CHECK_OK(tidemark_plan_rank_figures(plan, 0, &figures, error));
  CHECK(f->peak_bytes <= figures.budget_bytes);
  CHECK(!f->has_bytes || atomic_load(&checked_bytes) > 4 * figures.budget_bytes);
  if (library != NULL) {
    CHECK(stand_in_get("pinned_allocations") > 0);
    CHECK(stand_in_get("copies_out") == report.copies_out && stand_in_get("copies_in") == report.copies_in);
    CHECK(stand_in_get("copied_out_bytes") == report.copied_out_bytes);
    CHECK(stand_in_get("copied_in_bytes") == report.copied_in_bytes);
    CHECK(stand_in_get("copy_streams_out") == 1 && stand_in_get("copy_streams_in") == 1);
    CHECK(stand_in_get("synchronous_copies") == 0 && stand_in_get("pageable_copies") == 0);
  }
  CHECK(f->lent == 0 && f->hand_overs == f->releases);
  tidemark_session_close(session);
}

/* Copies that take long: what reads without waiting for them reads other bytes. */
static void test_slow_copies(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session* session;
  if (library == NULL) return;
  session = open_session(f, plan);
  stand_in_set("delay_us", 300);
  play(f, session);
  play(f, session);
  stand_in_set("delay_us", 0);
  CHECK(report_of(session).departures == 0);
  tidemark_session_close(session);
}

/* As a communication library beside the step. */
static void* ask_beside(void* user) {
  struct Framework* const f = user;
  const tidemark_stream stream = f->stream == TIDEMARK_CALLING_THREAD ? 0 : f->stream;
  tidemark_address address = 0;
  CHECK_OK(tidemark_allocator_allocate(f->allocator, 4096, stream, 0, &address, error));
  CHECK_OK(tidemark_allocator_release(f->allocator, address, error));
  return NULL;
}

/* What the step asks for stands where the plan has it, in every step; a step that departs is served all the same. */
static void test_planned_requests(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session_options options = options_of(f);
  tidemark_request requests[kMostOps] = {{0}};
  tidemark_session* session = NULL;
  tidemark_session_report report;
  struct Pass evaluated;
  pthread_t beside;
  int op, times, i;
  for (op = 0; op < step.op_count; ++op)
    requests[op] = (tidemark_request){.op = op, .storage = step.ops[op].writes, .bytes = bytes_of(step.ops[op].writes)};
  options.allocator = f->allocator;
  options.requests = requests;
  options.request_count = step.op_count;
  for (times = 0; times < 2; ++times) {
    CHECK_OK(tidemark_session_open(plan, 0, f->device, &options, &session, error));
    for (i = 0; i < 3; ++i) play(f, session);
    report = report_of(session);
    CHECK(report.planned_bytes > 0 && report.requests_planned >= 3 * step.op_count);
    CHECK(report.requests_unplanned == 0 && report.requests_blocked == 0 && report.departures == 0);
    CHECK(report.copy_streams == 2 && report.requests_other_threads == 0);
    begin_pass(f, session, &evaluated);
    CHECK(pthread_create(&beside, NULL, ask_beside, f) == 0 && pthread_join(beside, NULL) == 0);
    issue_phase(f, session, &evaluated, 1);
    end_pass(f, session, &evaluated);
    play(f, session);
    report = report_of(session);
    play(f, session);
    CHECK(report_of(session).requests_unplanned == report.requests_unplanned);
    CHECK(report.requests_other_threads == (f->stream == TIDEMARK_CALLING_THREAD ? 1 : 0));
    tidemark_session_close(session);
  }
}

static void test_departures(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session* session = open_session(f, plan);
  struct Pass evaluated, late, cut;
  int64_t departures;
  int op;
  begin_pass(f, session, &evaluated); /* backward is left out */
  issue_phase(f, session, &evaluated, 1);
  end_pass(f, session, &evaluated);
  play(f, session);
  begin_pass(f, session, &late); /* backward comes behind the next step */
  issue_phase(f, session, &late, 1);
  play(f, session);
  CHECK(report_of(session).steps_open == 1);
  issue_phase(f, NULL, &late, 0);
  drop_pass(f, &late);
  CHECK(report_of(session).steps_open == 0);
  begin_pass(f, session, &cut); /* backward stops half way, and the next step begins without an end */
  issue_phase(f, session, &cut, 1);
  for (op = 0; op < step.op_count * 3 / 4; ++op)
    if (!step.ops[op].is_forward) issue(f, session, &cut, op);
  drop_pass(f, &cut);
  departures = report_of(session).departures;
  play(f, session);
  play(f, session);
  CHECK(report_of(session).departures == departures);
  CHECK(f->lent == 0);
  tidemark_session_close(session);
}

static int managed_storage(const tidemark_session* session) {
  int s;
  for (s = 0; s < step.storage_count; ++s)
    if (tidemark_session_is_managed(session, s)) return s;
  return -1;
}

/* `is_last`: nothing else asks for the storage, and the plan is through with it. */
static void check_saved(struct Framework* f, tidemark_saved* saved, int32_t again, int is_last) {
  struct Kernel* const kernel = calloc(1, sizeof *kernel);
  tidemark_block block = {NULL, 0, 0};
  int32_t handed_over = 7;
  CHECK_OK(tidemark_session_use(saved, again, f->stream, &block, &handed_over, error));
  CHECK(block.handle != NULL && handed_over == is_last);
  if (block.handle != NULL) touch(kernel, f->pass, block.handle, 0);
  launch(f, kernel);
  if (handed_over == 1) drop(f, reclaim(f, block));
}

/* What was saved is asked for twice, later than the plan has it, and of an op that the plan does not know of. */
static void test_asked_for_otherwise(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session* const session = open_session(f, plan);
  tidemark_saved* extra[2] = {NULL, NULL};
  struct Pass pass;
  const int s = managed_storage(session);
  int i;
  begin_pass(f, session, &pass);
  issue_phase(f, session, &pass, 1);
  CHECK_OK(tidemark_session_save(session, s, step.op_count - 1, -1, &extra[0], error));
  CHECK_OK(tidemark_session_save(session, s, -1, -1, &extra[1], error));
  issue_phase(f, session, &pass, 0);
  for (i = 0; i < 4; ++i) check_saved(f, extra[i % 2], i < 2, i == 3);
  tidemark_session_free(extra[0]);
  tidemark_session_free(extra[1]);
  end_pass(f, session, &pass);
  /* The op it is saved for lies behind the last use that the plan has of it, and is the first that is told. */
  begin_pass(f, session, &pass);
  issue_phase(f, session, &pass, 1);
  CHECK_OK(tidemark_session_save(session, s, step.op_count - 1, -1, &extra[0], error));
  free_saved(&pass);
  check_saved(f, extra[0], 0, 1);
  tidemark_session_free(extra[0]);
  end_pass(f, session, &pass);
  CHECK(report_of(session).departures > 0);
  tidemark_session_close(session);
}

/* In place: planned, and behind the plan's back; what was made from the old content is there all the same. */
static void test_change(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session* const session = open_session(f, plan);
  struct Pass pass;
  int other = 0;
  begin_pass(f, session, &pass);
  issue(f, session, &pass, 0);
  CHECK_OK(tidemark_session_change(session, pass.local[step.ops[0].writes], 1, f->stream, error));
  CHECK_OK(tidemark_session_change(session, &other, 0, f->stream, error));
  issue(f, session, &pass, 1);
  CHECK_OK(tidemark_session_change(session, pass.local[step.ops[1].writes], 0, f->stream, error));
  CHECK_OK(tidemark_session_keep(session, 1, error));
  for (other = 2; other < step.op_count; ++other) issue(f, session, &pass, other);
  end_pass(f, session, &pass);
  CHECK(report_of(session).departures > 0);
  tidemark_session_close(session);
}

/* What no op of the plan made leaves as well where memory is short, and is there when it is asked for. */
static void test_adopt(struct Framework* f, const tidemark_plan* plan) {
  const int32_t may_spill[1] = {0};
  tidemark_session_options options = options_of(f);
  tidemark_session* session = NULL;
  tidemark_saved* saved[2] = {NULL, NULL};
  struct Block* blocks[2];
  struct Pass pass;
  int32_t numbers[2] = {-1, -1};
  int64_t given_up = 0;
  int i;
  options.is_idle = is_idle;
  options.may_spill = may_spill;
  options.may_spill_count = 1;
  CHECK_OK(tidemark_session_open(plan, 0, f->device, &options, &session, error));
  f->adopted_as = managed_storage(session);
  begin_pass(f, session, &pass);
  issue_phase(f, session, &pass, 1);
  for (i = 0; i < 2; ++i) {
    struct Kernel* const kernel = calloc(1, sizeof *kernel);
    blocks[i] = new_block(f, f->adopted_as);
    touch(kernel, &pass, blocks[i], 1);
    launch(f, kernel);
    CHECK_OK(tidemark_session_adopt(session, lend(f, blocks[i]), f->stream, &numbers[i], error));
    CHECK(numbers[i] >= step.storage_count && tidemark_session_find(session, blocks[i]) == numbers[i]);
    CHECK(!tidemark_session_is_managed(session, numbers[i]));
    CHECK_OK(tidemark_session_save(session, numbers[i], -1, -1, &saved[i], error));
  }
  CHECK(numbers[0] != numbers[1]);
  f->adopted = numbers[0];
  tidemark_session_free(saved[1]); /* never asked for: released */
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "has not adopted",
                tidemark_session_save(session, numbers[1], -1, -1, &saved[1], error));
  CHECK_OK(tidemark_session_make_room(session, (int64_t)1 << 40, f->stream, &given_up, error));
  CHECK(given_up >= bytes_of(f->adopted_as) && report_of(session).spilled > 0);
  check_saved(f, saved[0], 1, 0);
  CHECK_OK(tidemark_session_make_room(session, (int64_t)1 << 40, f->stream, &given_up, error));
  check_saved(f, saved[0], 0, 1);
  tidemark_session_free(saved[0]);
  issue_phase(f, session, &pass, 0);
  end_pass(f, session, &pass);
  play(f, session);
  CHECK(f->lent == 0);
  tidemark_session_close(session);
}

static void test_saved_outlives_session(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session* session = open_session(f, plan);
  struct Pass pass;
  begin_pass(f, session, &pass);
  issue_phase(f, session, &pass, 1);
  tidemark_session_close(session);
  issue_phase(f, NULL, &pass, 0);
  drop_pass(f, &pass);
  check_contents(f);
  session = open_session(f, plan); /* and where nobody asks */
  begin_pass(f, session, &pass);
  issue_phase(f, session, &pass, 1);
  tidemark_session_close(session);
  drop_pass(f, &pass);
  check_contents(f);
  CHECK(f->lent == 0);
}

/* Less pinned memory than the plan asks for: storages stay. */
static void test_short_of_pinned_memory(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session_options options = options_of(f);
  tidemark_session* session = NULL;
  options.host_bytes = 600 * 1024;
  CHECK_OK(tidemark_session_open(plan, 0, f->device, &options, &session, error));
  play(f, session);
  play(f, session);
  CHECK(report_of(session).kept_for_host > 0 && report_of(session).pinned_bytes <= options.host_bytes);
  tidemark_session_close(session);
}

/* A framework that says no once: the call says which storage, and what was asked for is there the next time. */
static void test_framework_that_refuses(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session* const session = open_session(f, plan);
  f->may_fail = 1;
  memset(f->refused, 0, sizeof f->refused);
  f->refuse_blocks = 1;
  play(f, session);
  CHECK(f->refuse_blocks == 0 && f->refused[TIDEMARK_STATUS_INFEASIBLE] == 1);
  f->refuse_rebuilds = 2;
  play(f, session);
  CHECK(f->refuse_rebuilds == 0 && f->refused[TIDEMARK_STATUS_INTERNAL] == 2);
  f->spoil_rebuilds = 2;
  play(f, session);
  CHECK(f->spoil_rebuilds == 0 && f->refused[TIDEMARK_STATUS_INTERNAL] == 4);
  f->wrong_block = 1;
  play(f, session);
  CHECK(f->wrong_block == 0 && f->refused[TIDEMARK_STATUS_INTERNAL] == 5);
  f->may_fail = 0;
  play(f, session);
  CHECK(f->lent == 0 && !f->is_broken);
  tidemark_session_close(session);
}

static void refuse_open(struct Framework* f, const tidemark_plan* plan, tidemark_session_options options,
                        tidemark_status status, const char* says) {
  tidemark_session* session = (tidemark_session*)&options;
  CHECK_REFUSED(status, says, tidemark_session_open(plan, 0, f->device, &options, &session, error));
  CHECK(session == NULL);
}

/* Of a model job. Where nothing runs again it can be followed; its templates stand in the step once a layer, so which
 * op runs again could not be told. */
static void test_model_plans(struct Framework* f, const tidemark_plan* kept, const tidemark_plan* recomputed) {
  tidemark_session* const session = open_session(f, kept);
  CHECK_OK(tidemark_session_begin_step(session, f->stream, error));
  CHECK_OK(tidemark_session_op(session, 0, f->stream, error));
  CHECK_OK(tidemark_session_op(session, 100, f->stream, error));
  CHECK_OK(tidemark_session_end_step(session, f->stream, error));
  tidemark_session_close(session);
  refuse_open(f, recomputed, options_of(f), TIDEMARK_STATUS_BAD_INPUT, "stands in the step more than once");
}

static void test_refused_options(struct Framework* f, const tidemark_plan* plan) {
  int32_t parts[kMostOps] = {0};
  tidemark_session_options options = options_of(f);
  tidemark_session* session = NULL;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL",
                tidemark_session_open(plan, 0, f->device, &options, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "plan is NULL",
                tidemark_session_open(NULL, 0, f->device, &options, &session, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "device is NULL",
                tidemark_session_open(plan, 0, NULL, &options, &session, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "position 1",
                tidemark_session_open(plan, 1, f->device, &options, &session, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "must be given",
                tidemark_session_open(plan, 0, f->device, NULL, &session, error));
  options.struct_size = 0;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "struct_size is 0");
  options.struct_size = sizeof options - 1;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "struct_size");
  options = options_of(f);
  options.rebuild = NULL;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "must be given");
  options = options_of(f);
  options.take_block = NULL;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "must be given");
  options = options_of(f);
  options.release = NULL;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "must be given");
  options = options_of(f);
  {
    const struct {
      tidemark_request request;
      const char* says;
    } kWrong[] = {{{.op = -1}, "op is -1; requests stand by ascending op"},
                  {{.storage = -2}, "storage is -2"},
                  {{.storage = -1}, "a workspace has from 1"},
                  {{.storage = -1, .bytes = 1, .offset = -1}, "a workspace has from 1"},
                  {{.storage = 0, .is_within = 1}, "a workspace has from 1"},
                  {{.storage = -1, .bytes = 1, .is_within = 1}, "a workspace within a storage names it"},
                  {{.least_bytes = -1}, "least_bytes is out of range"}};
    size_t i;
    for (i = 0; i < sizeof kWrong / sizeof kWrong[0]; ++i) {
      options.requests = &kWrong[i].request;
      options.request_count = 1;
      refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, kWrong[i].says);
    }
    options.request_count = 0;
    refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "request_count is 0; it is the length of requests");
    options = options_of(f);
  }
  options.host_bytes = -1;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "host_bytes is -1");
  options = options_of(f);
  options.op_count = 3;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "op_count is 3");
  options.op_count = -1;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "op_count is -1");
  options.part_of_op = parts;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "op_count is -1");
  options.op_count = 0;
  refuse_open(f, plan, options, TIDEMARK_STATUS_INVALID, "op_count is 0");
  options.op_count = 3;
  refuse_open(f, plan, options, TIDEMARK_STATUS_BAD_INPUT, "for 3 ops, and the plan has 41");
  options = options_of(f);
  options.op_count = step.op_count;
  options.part_of_op = parts;
  parts[7] = -1;
  refuse_open(f, plan, options, TIDEMARK_STATUS_BAD_INPUT, "a part of a step");
  parts[7] = INT32_MAX;
  refuse_open(f, plan, options, TIDEMARK_STATUS_BAD_INPUT, "a part of a step");
}

static void test_refused_calls(struct Framework* f, const tidemark_plan* plan) {
  tidemark_session* const session = open_session(f, plan);
  tidemark_session_report report = {.struct_size = 8};
  tidemark_block block = {.handle = f, .address = 1};
  tidemark_saved* saved = NULL;
  int32_t handed_over = 7, number = 7;
  const int s = managed_storage(session), ops = step.op_count;
  const tidemark_stream stream = f->stream;
  CHECK(!tidemark_session_is_managed(NULL, s) && !tidemark_session_is_rebuilt(NULL, 0));
  CHECK(!tidemark_session_is_managed(session, -1) && !tidemark_session_is_managed(session, 1 << 30));
  CHECK(!tidemark_session_is_rebuilt(session, -1) && !tidemark_session_is_rebuilt(session, ops));
  CHECK(tidemark_session_find(NULL, f) == -1 && tidemark_session_find(session, NULL) == -1);
  tidemark_session_close(NULL);
  tidemark_session_free(NULL);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_begin_step(NULL, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_op(NULL, 0, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_take(NULL, s, block, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL",
                tidemark_session_adopt(NULL, block, stream, &number, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_keep(NULL, 0, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_save(NULL, s, 0, 0, &saved, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_change(NULL, f, 0, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_end_step(NULL, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_get_report(NULL, &report, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "saved is NULL",
                tidemark_session_use(NULL, 0, stream, &block, &handed_over, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "struct_size", tidemark_session_get_report(session, &report, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "report is NULL", tidemark_session_get_report(session, NULL, error));

  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "session is NULL", tidemark_session_expect_requests(NULL, 1, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "requests is 3", tidemark_session_expect_requests(session, 3, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "requests is -1", tidemark_session_expect_requests(session, -1, error));
  CHECK_OK(tidemark_session_expect_requests(session, TIDEMARK_REQUESTS_OTHER, error)); /* no allocator: no effect */
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no step has begun", tidemark_session_op(session, 0, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no step has begun", tidemark_session_take(session, s, block, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no step has begun",
                tidemark_session_adopt(session, block, stream, &number, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no step has begun", tidemark_session_keep(session, 0, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no step has begun", tidemark_session_save(session, s, 0, 0, &saved, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no step has begun", tidemark_session_end_step(session, stream, error));
  CHECK_OK(tidemark_session_begin_step(session, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "op is -1; the plan has 41", tidemark_session_op(session, -1, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "op is 41", tidemark_session_op(session, ops, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "op is 41", tidemark_session_keep(session, ops, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "op is 41", tidemark_session_save(session, s, ops, -1, &saved, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "op is -2", tidemark_session_save(session, s, 0, -2, &saved, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "does not manage", tidemark_session_save(session, -2, 0, 0, &saved, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "does not manage",
                tidemark_session_take(session, step.storage_count, block, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "storage is 0", tidemark_session_take(session, 0, block, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "saved is NULL", tidemark_session_save(session, s, 0, 0, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "storage is NULL",
                tidemark_session_adopt(session, block, stream, NULL, error));
  block.bytes = -1;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "block has -1 bytes",
                tidemark_session_adopt(session, block, stream, &number, error));
  block.handle = NULL;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no handle", tidemark_session_take(session, s, block, stream, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no handle", tidemark_session_adopt(session, block, stream, &number, error));
  CHECK(number == 7);
  CHECK(saved == NULL);
  /* What the framework keeps itself: asking for it only says how far backward is. */
  CHECK_OK(tidemark_session_save(session, -1, 0, 0, &saved, error));
  handed_over = 7;
  CHECK_OK(tidemark_session_use(saved, 0, stream, &block, &handed_over, error));
  CHECK(block.handle == NULL && handed_over == 0);
  tidemark_session_free(saved);
  handed_over = 7;
  /* Saved, and never made. */
  CHECK_OK(tidemark_session_save(session, s, -1, -1, &saved, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "handed_over is NULL",
                tidemark_session_use(saved, 0, stream, &block, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "block or", tidemark_session_use(saved, 0, stream, NULL, &handed_over, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INTERNAL, "no op made it",
                tidemark_session_use(saved, 0, stream, &block, &handed_over, error));
  CHECK(block.handle == NULL && handed_over == 7);
  tidemark_session_free(saved);
  CHECK_OK(tidemark_session_end_step(session, stream, error));
  tidemark_session_close(session);
}

/* Waits here are on the thread, and the framework's work is done when the call returns. */
static int lines_of(const char* path, const char* event) {
  char line[256];
  int count = 0;
  FILE* const file = fopen(path, "r");
  CHECK(file != NULL);
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, event, strlen(event)) == 0) ++count;
  if (file != NULL) fclose(file);
  return count;
}

static void test_record(struct Framework* f, const tidemark_plan* plan) {
  char path[] = "/tmp/tidemark-session-XXXXXX";
  tidemark_session_options options = options_of(f);
  tidemark_session* session = NULL;
  tidemark_session_report report;
  tidemark_error* full = NULL;
  const int32_t none = 0;
  const int file = mkstemp(path);
  CHECK(file >= 0);
  options.record = path;
  CHECK_OK(tidemark_session_open(plan, 0, f->device, &options, &session, error));
  play(f, session);
  play(f, session);
  report = report_of(session);
  tidemark_session_close(session);
  CHECK(lines_of(path, "tidemark_session version=1 ") == 1);
  CHECK(lines_of(path, "begin_step") == 2 && lines_of(path, "end_step") == 2 && lines_of(path, "close") == 1);
  CHECK(lines_of(path, "copy_out ") == report.copies_out && lines_of(path, "copy_in ") == report.copies_in);
  CHECK(lines_of(path, "rebuild ") == report.rebuilt && lines_of(path, "failed") == 0);
  CHECK(lines_of(path, "op ") > 0 && lines_of(path, "take ") > 0 && lines_of(path, "free ") > 0);
  CHECK(lines_of(path, "save ") == lines_of(path, "use ") && lines_of(path, "use ") == lines_of(path, "used"));
  options.part_of_op = &none;
  options.op_count = 1;
  refuse_open(f, plan, options, TIDEMARK_STATUS_BAD_INPUT, "for 1 ops, and the plan has");
  CHECK(lines_of(path, "close") == 1); /* what is refused leaves an older log as it was */
  options = options_of(f);
  close(file);
  CHECK(remove(path) == 0);

  options.record = "/nowhere/log";
  refuse_open(f, plan, options, TIDEMARK_STATUS_BAD_INPUT, "/nowhere/log: cannot write: No such file");
  options.record = "/dev/full";
  CHECK_OK(tidemark_session_open(plan, 0, f->device, &options, &session, error));
  CHECK(tidemark_session_begin_step(session, f->stream, &full) == TIDEMARK_STATUS_BAD_INPUT);
  CHECK_OK(tidemark_session_end_step(session, f->stream, error));
  CHECK(strstr(tidemark_error_message(full), "/dev/full: cannot write: No space left") != NULL);
  tidemark_error_free(full);
  tidemark_session_close(session);
  options.struct_size = offsetof(tidemark_session_options, record); /* a program that knows of no log */
  CHECK_OK(tidemark_session_open(plan, 0, f->device, &options, &session, error));
  tidemark_session_close(session);
}

static void test_calling_thread(struct Framework* f, const tidemark_plan* plan) {
  const tidemark_stream own = f->stream;
  tidemark_session* session;
  tidemark_session_report report;
  int i;
  f->stream = TIDEMARK_CALLING_THREAD;
  session = open_session(f, plan);
  for (i = 0; i < 3; ++i) play(f, session);
  report = report_of(session);
  CHECK(report.departures == 0 && report.copies_in > 0 && report.late <= report.waits);
  CHECK((report.late == 0) == (report.waited_ns == 0));
  tidemark_session_close(session);
  test_departures(f, plan);
  test_saved_outlives_session(f, plan);
  f->stream = own;
}

/* ---- Failures of the device ------------------------------------------------------------------------------------- */

struct Fault {
  const char* call;
  int code;
};

/* How many calls on the next that fails lies, behind the first. Sanitizers slow a step down tenfold. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { kFirstFaults = 4, kFaultStride = 7 };
#else
enum { kFirstFaults = 12, kFaultStride = 5 };
#endif

/* Every call in turn fails once: what is read is right all the same, or the step says that it cannot go on. */
static void test_faults(struct Framework* f, const tidemark_plan* plan, int is_cuda) {
  static const struct Fault kCuda[] = {{"cuMemcpyDtoHAsync", 1},   {"cuMemcpyHtoDAsync", 1}, {"cuEventRecord", 701},
                                       {"cuStreamWaitEvent", 1},   {"cuEventCreate", 701},   {"cuMemHostAlloc", 2},
                                       {"cuMemHostRegister", 304}, {"cuEventQuery", 1}};
  static const struct Fault kAscend[] = {{"aclrtMemcpyAsync", 107000},     {"aclrtRecordEvent", 207007},
                                         {"aclrtStreamWaitEvent", 107000}, {"aclrtCreateEventExWithFlag", 207007},
                                         {"aclrtMallocHost", 207001},      {"aclrtQueryEventStatus", 107000}};
  const struct Fault* const faults = is_cuda ? kCuda : kAscend;
  const size_t count = is_cuda ? sizeof kCuda / sizeof *kCuda : sizeof kAscend / sizeof *kAscend;
  size_t i;
  int64_t skip;
  f->may_fail = 1;
  memset(f->refused, 0, sizeof f->refused);
  for (i = 0; i < count; ++i)
    for (skip = 0; skip < 40; skip += skip < kFirstFaults ? 1 : kFaultStride) {
      tidemark_session* session;
      stand_in_fail_call(faults[i].call, skip, faults[i].code);
      session = open_session(f, plan);
      play(f, session);
      play(f, session);
      CHECK(!f->is_broken && f->lent == 0);
      tidemark_session_close(session);
      stand_in_fail_call(faults[i].call, 0, 0);
      if (failures > 0) fprintf(stderr, "... where call %d of %s fails\n", (int)skip, faults[i].call);
    }
  CHECK(f->refused[TIDEMARK_STATUS_INFEASIBLE] > 20);
  CHECK(f->refused[TIDEMARK_STATUS_INTERNAL] == 0);
  CHECK(stand_in_get("violations") == 0);
  f->may_fail = 0;
}

/* The device is lost in the middle of a step: everything is released once, and nothing is left. */
static void test_loss(const char* name, const char* path, const tidemark_plan* plan) {
  struct Framework f;
  struct Pass pass;
  tidemark_session* session;
  open_framework(&f, name, path);
  session = open_session(&f, plan);
  play(&f, session);
  f.may_fail = f.stops_at_refusal = 1;
  stand_in_fail_call(strcmp(name, "cuda") == 0 ? "cuMemcpyHtoDAsync" : "aclrtMemcpyAsync", 3,
                     strcmp(name, "cuda") == 0 ? 700 : 507013);
  begin_pass(&f, session, &pass);
  issue_phase(&f, session, &pass, 1);
  issue_phase(&f, session, &pass, 0);
  CHECK(f.is_broken && f.refused[TIDEMARK_STATUS_INFEASIBLE] > 0);
  tidemark_session_close(session);
  drop_pass(&f, &pass);
  close_framework(&f);
}

int main(int count, char** arguments) {
  struct Framework f;
  tidemark_plan* plans[3] = {NULL};
  const char* const device = count > 5 ? arguments[5] : NULL;
  const char* const path = count > 6 ? arguments[6] : NULL;
  int i;
  if (device == NULL) {
    fprintf(stderr, "usage: session_test PLAN STEP KEPT RECOMPUTED DEVICE [LIBRARY]\n");
    return 2;
  }
  read_step(arguments[2]);
  CHECK_OK(tidemark_plan_read(arguments[1], &plans[0], error));
  CHECK_OK(tidemark_plan_read(arguments[3], &plans[1], error));
  CHECK_OK(tidemark_plan_read(arguments[4], &plans[2], error));
  if (path != NULL) open_library(path);
  open_framework(&f, device, path);
  if (failures > 0) return 1;
  test_following(&f, plans[0]);
  test_slow_copies(&f, plans[0]);
  test_planned_requests(&f, plans[0]);
  test_departures(&f, plans[0]);
  test_asked_for_otherwise(&f, plans[0]);
  test_change(&f, plans[0]);
  test_adopt(&f, plans[0]);
  test_saved_outlives_session(&f, plans[0]);
  test_short_of_pinned_memory(&f, plans[0]);
  test_framework_that_refuses(&f, plans[0]);
  test_model_plans(&f, plans[1], plans[2]);
  test_refused_options(&f, plans[0]);
  test_refused_calls(&f, plans[0]);
  test_record(&f, plans[0]);
  if (strcmp(device, "host") == 0) test_calling_thread(&f, plans[0]);
  if (path != NULL) test_faults(&f, plans[0], strcmp(device, "cuda") == 0);
  close_framework(&f);
  if (path != NULL) test_loss(device, path, plans[0]);
  for (i = 0; i < 3; ++i) tidemark_plan_free(plans[i]);
  if (failures > 0) fprintf(stderr, "%d checks failed\n", failures);
  return failures > 0;
}
