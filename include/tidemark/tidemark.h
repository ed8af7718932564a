/*
 * Tidemark's C interface: the only header that is installed.
 *
 * Conventions, for every function below:
 *
 * Handles     are pointers to incomplete types, made by an `_open`, `_create` or `_read` function and released once
 *             by the matching `_close` or `_free`, which accepts NULL. A handle keeps alive what it was made from: an
 *             allocator may outlive the caller's handle to its device.
 * Status      every function that can fail returns a tidemark_status; TIDEMARK_STATUS_OK is 0.
 * Outputs     are written on success only: what a failed call was to fill keeps the caller's value, an address and a
 *             report as well. Except handles (error objects and buffers included), which are set to NULL on failure.
 * Errors      the last parameter of such a function is `tidemark_error** error`: NULL to ignore, or the address of a
 *             pointer that is set to NULL on success and to an object with the text on failure, which the caller frees.
 *             A NULL handle, an output that is NULL or a wrong struct_size is TIDEMARK_STATUS_INVALID, never a crash.
 *             Pointers that are neither NULL nor what the function asks for are beyond what can be checked.
 * Structs     begin with `struct_size`, which the caller sets to sizeof the struct, also in those that a function
 *             fills. Structs grow at their end only, to 1024 bytes at most. Only members that both sides know are read
 *             and written: a program compiled against an older header sets a smaller size and gets what it knows; one
 *             compiled against a newer header sets a larger size, and what the library does not know must be zero
 *             (INVALID otherwise), is left alone, and so reads as zero. Zero the whole struct before it is first used.
 * Options     zero means default, for every member; a pointer to an options struct may be NULL: all defaults. Numbers
 *             have limits, stated with them; outside is INVALID, and nothing is made.
 * Sizes       are int64_t bytes, never negative. Times are int64_t nanoseconds and say in their name or comment whether
 *             they are modelled, simulated or measured.
 * Text        is UTF-8 and ends with a zero byte; texts returned belong to the object they came from.
 * Callbacks   get the `user` pointer given with them. They must not throw, and must not call back into the object that
 *             calls them unless said so.
 * Faults      nothing throws across this interface, and nothing ends the process. What would be an exception inside is
 *             TIDEMARK_STATUS_INTERNAL or TIDEMARK_STATUS_OUT_OF_HOST_MEMORY.
 * Threads     stated with each handle. Functions without a handle may be called from any thread.
 * Stability   names, signatures and meanings stay while TIDEMARK_ABI_VERSION stays. What starts with another prefix
 *             than tidemark_ or TIDEMARK_ is not exported.
 */
#ifndef TIDEMARK_TIDEMARK_H_
#define TIDEMARK_TIDEMARK_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h> /* ssize_t, in the framework hooks */

#if defined(__GNUC__)
#define TIDEMARK_API __attribute__((visibility("default")))
#else
#define TIDEMARK_API
#endif

#ifdef __cplusplus
extern "C" {
#define TIDEMARK_NOEXCEPT noexcept
#else
#define TIDEMARK_NOEXCEPT
#endif

/* ---- Version ---------------------------------------------------------------------------------------------------- */

#define TIDEMARK_ABI_VERSION 5

/* The TIDEMARK_ABI_VERSION the library was built with. A program may go on only if it equals its own. */
TIDEMARK_API int32_t tidemark_abi_version(void) TIDEMARK_NOEXCEPT;
/* "0.1.0": for people and reports. */
TIDEMARK_API const char* tidemark_version(void) TIDEMARK_NOEXCEPT;

/* ---- Status and errors ------------------------------------------------------------------------------------------ */

typedef int32_t tidemark_status;
enum {
  TIDEMARK_STATUS_OK = 0,
  TIDEMARK_STATUS_INVALID = 1,       /* a wrong argument: a bug of the caller */
  TIDEMARK_STATUS_BAD_INPUT = 2,     /* a file or name is wrong; the text says what, where and what would be right */
  TIDEMARK_STATUS_INFEASIBLE = 3,    /* understood, and the answer is no */
  TIDEMARK_STATUS_OUT_OF_MEMORY = 4, /* device or pinned memory; free something and try again */
  TIDEMARK_STATUS_NO_RESOURCE = 5,   /* no stream, event or task slot left */
  TIDEMARK_STATUS_UNSUPPORTED = 6,   /* this device cannot */
  TIDEMARK_STATUS_NOT_READY = 7,     /* not complete yet */
  TIDEMARK_STATUS_COPY_FAILED = 8,   /* a copy or launch did not take place */
  TIDEMARK_STATUS_DEVICE_LOST = 9,   /* sticky */
  TIDEMARK_STATUS_OUT_OF_HOST_MEMORY = 10, /* of ordinary host memory */
  TIDEMARK_STATUS_INTERNAL = 11,           /* a fault in Tidemark */
  TIDEMARK_STATUS_PEER_LOST = 12 /* another process is gone, late, or does something else; the text names it. Sticky */
};
/* "out_of_memory" and so on; "unknown" for a number that is none of the above. */
TIDEMARK_API const char* tidemark_status_name(tidemark_status status) TIDEMARK_NOEXCEPT;

/* Thread rule: constant; any thread may read it. */
typedef struct tidemark_error tidemark_error;
TIDEMARK_API tidemark_status tidemark_error_status(const tidemark_error* error) TIDEMARK_NOEXCEPT;
/* The text, one line for a person; "" for NULL. */
TIDEMARK_API const char* tidemark_error_message(const tidemark_error* error) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_error_free(tidemark_error* error) TIDEMARK_NOEXCEPT;

/* Bytes that a function returns. Thread rule: constant; any thread may read it. */
typedef struct tidemark_buffer tidemark_buffer;
TIDEMARK_API const void* tidemark_buffer_data(const tidemark_buffer* buffer)
    TIDEMARK_NOEXCEPT; /* a zero byte follows */
TIDEMARK_API int64_t tidemark_buffer_size(const tidemark_buffer* buffer) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_buffer_free(tidemark_buffer* buffer) TIDEMARK_NOEXCEPT;

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

/* Thread rule: any thread; calls on one stream must not overlap. */
typedef struct tidemark_device tidemark_device;
typedef uint64_t tidemark_address; /* on `sim` there is no memory behind it */
typedef uint64_t tidemark_stream;  /* for cuda and ascend the vendor's handle; 0 is the default stream */
typedef uint64_t tidemark_event;

/* For frameworks that queue their launches (torch_npu's task queue): called before something is put on a stream that
 * the device did not create, or waited for there or for the whole device. Returns once all that the framework has
 * queued for device `ordinal` is on its streams. LATER: this thread must not wait for that now; the call is
 * NO_RESOURCE, or an allocation gets other memory or none. FAILED, and whatever is none of these: the framework cannot
 * go on; the call answers as for a device that is lost. `why` takes a text of less than `why_bytes` bytes, empty as it
 * is given, for both. Any thread, with locks of the device's user held: it must call nothing of Tidemark. */
enum { TIDEMARK_SUBMITTED = 0, TIDEMARK_SUBMIT_LATER = 1, TIDEMARK_SUBMIT_FAILED = 2 };
typedef int32_t (*tidemark_submit_queued)(void* user, int32_t ordinal, char* why, int64_t why_bytes);

typedef struct tidemark_device_options {
  size_t struct_size;
  int32_t ordinal;         /* cuda, ascend: which device, to 1023 */
  int32_t play_estimates;  /* not 0: launches of a plan take their estimated time. Always so on sim */
  int64_t capacity_bytes;  /* sim (default 64 GiB), host (default 1 GiB; see below); to 2^46 */
  int64_t d2h_bytes_per_s; /* sim (default 25e9), host (default: unlimited); 10^6 to 10^15 */
  int64_t h2d_bytes_per_s;
  const char* library;       /* cuda, ascend: the vendor's library; default: by its usual name */
  int32_t copies_any_memory; /* host, not 0: a copy's device side may be any memory of the process, as a framework's
                                that computes on the CPU */
  int32_t reserved;
  tidemark_submit_queued submit_queued; /* NULL: nothing is queued */
  void* submit_user;                    /* for submit_queued, which must work until the device is closed */
} tidemark_device_options;

/* `name`: "sim", "host", "cuda", "ascend" or "null". BAD_INPUT: no such name; INFEASIBLE: not on this machine.
 *
 * Host memory. Available is what the machine has available, or what the tightest memory group (cgroup) of the process
 * has left, where that is less: the process's own group and all above it, version 1 or 2, each one's limit (the lower
 * of memory.max and memory.high) less what it uses but for the page cache of files. The memory of `host`, and pinned
 * memory of `host`, `cuda` and `ascend`, is OUT_OF_MEMORY where it would leave less than 256 MiB available; nothing is
 * taken then. `capacity_bytes` is not checked against it at opening. */
TIDEMARK_API tidemark_status tidemark_device_open(const char* name, const tidemark_device_options* options,
                                                  tidemark_device** device, tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_device_close(tidemark_device* device) TIDEMARK_NOEXCEPT;

typedef struct tidemark_device_traits {
  size_t struct_size;
  const char* name;        /* as opened */
  const char* product;     /* what the driver calls it */
  int64_t granule_bytes;   /* unit of mapping; 0: cannot map */
  int64_t alignment_bytes; /* of every block an allocator hands out */
  int64_t tail_pad_bytes;  /* readable bytes behind every block */
  int32_t simulated;       /* times are virtual */
  int32_t has_bytes;       /* addresses have memory behind them */
  int32_t numa_node;       /* -1: unknown or only one */
  int32_t reserved;
} tidemark_device_traits;
TIDEMARK_API tidemark_status tidemark_device_get_traits(const tidemark_device* device, tidemark_device_traits* traits,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;
/* On `host` total is capacity_bytes in whole granules, and free what of it is not taken, or what is available less
 * 256 MiB where that is less. */
TIDEMARK_API tidemark_status tidemark_device_memory(tidemark_device* device, int64_t* total_bytes, int64_t* free_bytes,
                                                    tidemark_error** error) TIDEMARK_NOEXCEPT;

/* Streams and events of the device, for callers that have none of their own. A program that drives the vendor's
 * streams passes their handles to the allocator instead. */
TIDEMARK_API tidemark_status tidemark_device_create_stream(tidemark_device* device, tidemark_stream* stream,
                                                           tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_device_destroy_stream(tidemark_device* device, tidemark_stream stream,
                                                            tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_device_create_event(tidemark_device* device, tidemark_event* event,
                                                          tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_device_destroy_event(tidemark_device* device, tidemark_event event,
                                                           tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Waits for everything submitted to the device. */
TIDEMARK_API tidemark_status tidemark_device_synchronize(tidemark_device* device,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;

/* ---- Cores and memory near a device ----------------------------------------------------------------------------- */

typedef struct tidemark_bind_options {
  size_t struct_size;
  const char*
      devices;  /* of all ranks of this host in rank order, the same text in each, with commas: PCI addresses, `node0`
                   and so on, `unknown`, `none` for a rank without; default: all accelerators by PCI address */
  int32_t rank; /* which of them is this process's, from 0 on, to 4095 */
  int32_t only_plan;    /* not 0: nothing is bound */
  const char* topology; /* with only_plan: a folder that stands for `/`, a simulated host; default: this one */
} tidemark_bind_options;

/* Binds the process to its share of the CPUs near its device: its threads to `main_cpus`, but for Tidemark's own, which
 * copy and pin memory, to `copy_cpus`; and has pages that nobody places go to `memory_node` first, of this thread and
 * of all that it starts. Nothing is widened: the plan is made within what the process may use (a mask that its parent
 * does not have is taken for its share already), a thread that has no CPU in common with it is left alone, and a memory
 * policy that was set stays. To be called before devices are opened; devices that do not know their node take this
 * one's. `report` is JSON: {device, device_node, home, main_cpus, copy_cpus, memory_node, shares_cores, simulated,
 * cpus_before, bound, threads_bound, threads_left, memory_placed, problems: [{what, right}]}, CPUs as "0-3,8", a node
 * that is not known as null; docs/c_api.md has it in full. The caller frees it. BAD_INPUT: no such device on this host.
 * INFEASIBLE: bound otherwise before (the same again is OK), or the system refuses. Thread rule: any thread; it is the
 * one that is bound first, so the one that trains. */
TIDEMARK_API tidemark_status tidemark_bind_process(const tidemark_bind_options* options, tidemark_buffer** report,
                                                   tidemark_error** error) TIDEMARK_NOEXCEPT;

/* ---- The caching allocator -------------------------------------------------------------------------------------- */

/* Device memory in stream order: a block freed on a stream is reused there at once, and on another as soon as the order
 * noted below says that stream runs after the block's last use, never before.
 * Thread rule: any thread. Notes about one stream come from the thread that submits to it. No thread may be inside a
 * call while the allocator is freed.
 * Limits: 4096 streams alive at once, forgotten by note_stream_destroyed; beyond, NO_RESOURCE and nothing done. A block
 * is smaller than 2^47 bytes. Blocks, events and threads: as many as host memory holds. */
typedef struct tidemark_allocator tidemark_allocator;

/* The name of an owner number, for reports. Write at most `capacity` bytes with the closing zero. Called without a
 * lock: may ask the allocator for statistics and snapshots and may release blocks, but must not allocate from it (a
 * failure would ask for names again) nor free it. An exception thrown through it is caught, and the owner goes by its
 * number. */
typedef void (*tidemark_owner_name)(void* user, uint32_t owner, char* name, size_t capacity);
/* Called before an allocation fails, with the report as text, on the thread that allocates and without a lock. May call
 * the allocator, which does not try again, but not free it. An exception thrown through it is caught and dropped. Once
 * for each allocation, when it is refused for good: the idle memory of pools was released before. */
typedef void (*tidemark_out_of_memory)(void* user, int64_t requested_bytes, const char* report);

typedef struct tidemark_allocator_options {
  size_t struct_size;
  int64_t limit_bytes; /* most that may be reserved, to 2^60; default: what the device has */
  int64_t
      address_space_bytes;  /* that a thread reserves, one granule to 2^46; default: eight times the device's memory */
  int64_t unit_bytes;       /* blocks are multiples of it: a power of two from 512 to a granule; default 512 */
  int64_t trace_entries;    /* length of the history in snapshots, to 2^24; default: none */
  double garbage_threshold; /* in (0, 1): above this part of the limit, idle granules move before new ones come */
  int32_t wait_on_stream;   /* not 0: at the limit the requesting stream waits for freed blocks, not the thread */
  int32_t device_index;     /* as it appears in snapshots, to 1023 */
  tidemark_owner_name owner_name;
  tidemark_out_of_memory on_out_of_memory;
  void* user;      /* of both callbacks */
  int32_t threads; /* that have memory of their own, to 4096; more share it; default 16 */
  int32_t reserved;
  int64_t kept_bytes; /* of freed blocks to 64 KiB that a thread keeps at hand, to 2^60; default 16 MiB. They join no
                         neighbours: 1 (none are kept) is slower and packs small blocks closest, for limits of MiB */
} tidemark_allocator_options;

TIDEMARK_API tidemark_status tidemark_allocator_create(tidemark_device* device,
                                                       const tidemark_allocator_options* options,
                                                       tidemark_allocator** allocator,
                                                       tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Waits for the device and releases all memory, live blocks included. */
TIDEMARK_API void tidemark_allocator_free(tidemark_allocator* allocator) TIDEMARK_NOEXCEPT;

/* 0 bytes are served as one unit. `owner` is any number the reports group by; 0: no owner. */
TIDEMARK_API tidemark_status tidemark_allocator_allocate(tidemark_allocator* allocator, int64_t bytes,
                                                         tidemark_stream stream, uint32_t owner,
                                                         tidemark_address* address,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The same from memory that may be exported to collectives or RDMA: never mapped in granules. */
TIDEMARK_API tidemark_status tidemark_allocator_allocate_plain(tidemark_allocator* allocator, int64_t bytes,
                                                               tidemark_stream stream, uint32_t owner,
                                                               tidemark_address* address,
                                                               tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Frees a block, after the work submitted so far to its stream and to every stream noted. INVALID, and no harm
 * done, if there is no live block at `address`: a second free, for instance. */
TIDEMARK_API tidemark_status tidemark_allocator_release(tidemark_allocator* allocator, tidemark_address address,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The same, where the last use is over or ordered before what was submitted to `stream` so far. */
TIDEMARK_API tidemark_status tidemark_allocator_release_on(tidemark_allocator* allocator, tidemark_address address,
                                                           tidemark_stream stream,
                                                           tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Allocations (tidemark_allocator_allocate, hooks; not of tagged pools or plain blocks) and all releases: noted from
 * begin_log, which forgets what was noted before, to end_log, whose `events` are tidemark_allocator_event in order. Of
 * the allocations, those of the thread that calls end_log. The caller frees them. */
typedef struct tidemark_allocator_event {
  tidemark_address address;
  int64_t bytes; /* as asked for; 0: released */
} tidemark_allocator_event;
TIDEMARK_API tidemark_status tidemark_allocator_begin_log(tidemark_allocator* allocator,
                                                          tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_allocator_end_log(tidemark_allocator* allocator, tidemark_buffer** events,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Rounded size of the live block at `address`; INVALID if there is none. */
TIDEMARK_API tidemark_status tidemark_allocator_block_bytes(const tidemark_allocator* allocator,
                                                            tidemark_address address, int64_t* bytes,
                                                            tidemark_error** error) TIDEMARK_NOEXCEPT;

/* What orders streams. Note a use (record_stream) before the block is released; a record just before the event is
 * recorded; a wait just after the stream was made to wait; a synchronisation after the call that saw completion. */
TIDEMARK_API tidemark_status tidemark_allocator_note_use(tidemark_allocator* allocator, tidemark_address address,
                                                         tidemark_stream stream,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_allocator_note_record(tidemark_allocator* allocator, tidemark_event event,
                                                            tidemark_stream stream,
                                                            tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_allocator_note_wait(tidemark_allocator* allocator, tidemark_stream stream,
                                                          tidemark_event event,
                                                          tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_allocator_note_event_synchronized(tidemark_allocator* allocator,
                                                                        tidemark_event event,
                                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_allocator_note_stream_synchronized(tidemark_allocator* allocator,
                                                                         tidemark_stream stream,
                                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Nothing may have been submitted since the device was synchronised. */
TIDEMARK_API tidemark_status tidemark_allocator_note_device_synchronized(tidemark_allocator* allocator,
                                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The handle may come back for another stream or event. */
TIDEMARK_API tidemark_status tidemark_allocator_note_event_destroyed(tidemark_allocator* allocator,
                                                                     tidemark_event event,
                                                                     tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Everything on the stream is over. Between waiting for the stream and destroying it: afterwards another thread's new
 * stream may have the handle, and its work would be taken for over. */
TIDEMARK_API tidemark_status tidemark_allocator_note_stream_destroyed(tidemark_allocator* allocator,
                                                                      tidemark_stream stream,
                                                                      tidemark_error** error) TIDEMARK_NOEXCEPT;

/* 0: what the device has. */
TIDEMARK_API tidemark_status tidemark_allocator_set_limit(tidemark_allocator* allocator, int64_t bytes,
                                                          tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Waits for the device, then releases all idle memory to it. `given_back_bytes` may be NULL. */
TIDEMARK_API tidemark_status tidemark_allocator_empty_cache(tidemark_allocator* allocator, int64_t* given_back_bytes,
                                                            tidemark_error** error) TIDEMARK_NOEXCEPT;

/* As PyTorch counts them: current and peak since creation or reset_peaks. */
typedef struct tidemark_allocator_statistics {
  size_t struct_size;
  int64_t requested_bytes;
  int64_t requested_peak_bytes;
  int64_t allocated_bytes; /* blocks in callers' hands */
  int64_t allocated_peak_bytes;
  int64_t active_bytes; /* and freed ones that no stream may reuse yet */
  int64_t active_peak_bytes;
  int64_t reserved_bytes; /* taken from the device */
  int64_t reserved_peak_bytes;
  int64_t allocations; /* blocks in callers' hands */
  int64_t allocations_total;
  int64_t frees_total;
  int64_t allocation_retries;
  int64_t out_of_memory_count;
  int64_t limit_bytes;
} tidemark_allocator_statistics;
TIDEMARK_API tidemark_status tidemark_allocator_get_statistics(const tidemark_allocator* allocator,
                                                               tidemark_allocator_statistics* statistics,
                                                               tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_allocator_reset_peaks(tidemark_allocator* allocator,
                                                            tidemark_error** error) TIDEMARK_NOEXCEPT;
/* All that is counted, as a JSON object: PyTorch's names (`allocated_bytes.all.peak`) with their numbers, and `pools`,
 * a list with an object for each pool. Peaks of several pools are added: a bound of what was held at once. */
TIDEMARK_API tidemark_status tidemark_allocator_memory_stats(const tidemark_allocator* allocator,
                                                             tidemark_buffer** json,
                                                             tidemark_error** error) TIDEMARK_NOEXCEPT;
/* State and history as PyTorch pickles its own: a file for its memory viewer. */
TIDEMARK_API tidemark_status tidemark_allocator_snapshot(const tidemark_allocator* allocator, tidemark_buffer** pickle,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Who holds the memory now, as one paragraph. What would help is in the text of a failed allocation. */
TIDEMARK_API tidemark_status tidemark_allocator_report(const tidemark_allocator* allocator, tidemark_buffer** text,
                                                       tidemark_error** error) TIDEMARK_NOEXCEPT;

/* ---- Pools ------------------------------------------------------------------------------------------------------ */

/* Pools of an allocator: memory apart, with the same order of streams and one limit for all. Blocks are released, and
 * their uses noted, by the functions above, which also count, empty and report pools. Where memory runs out, what other
 * pools hold idle is released first. Pools go with their allocator. Thread rule: any thread. */

/* By tag, a text of 1 to 255 bytes. */
typedef struct tidemark_pool_options {
  size_t struct_size;
  int32_t plain; /* not 0: memory that collectives or RDMA may register, never mapped in granules. No suspension then */
  int32_t reserved;
} tidemark_pool_options;
/* OK also where the pool is there already; INVALID if it is of the other kind. */
TIDEMARK_API tidemark_status tidemark_pool_create(tidemark_allocator* allocator, const char* tag,
                                                  const tidemark_pool_options* options,
                                                  tidemark_error** error) TIDEMARK_NOEXCEPT;
/* INVALID while a block is live, an allocation from it is under way, or a graph pool is open. */
TIDEMARK_API tidemark_status tidemark_pool_destroy(tidemark_allocator* allocator, const char* tag,
                                                   tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_pool_allocate(tidemark_allocator* allocator, const char* tag, int64_t bytes,
                                                    tidemark_stream stream, uint32_t owner, tidemark_address* address,
                                                    tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Waits for the device, then releases all memory of the pool to it, that of live blocks included. Blocks keep their
 * addresses, and nothing may touch them until the pool is resumed; allocations are INVALID meanwhile, releases are
 * accepted. `keep_contents` not 0: the contents of live blocks are saved to pinned host memory and restored. OK also
 * where the pool is suspended already. INVALID: a graph pool is open. UNSUPPORTED: a plain pool, or a device that does
 * not map. Any other failure has changed nothing. `given_back_bytes` may be NULL. */
TIDEMARK_API tidemark_status tidemark_pool_suspend(tidemark_allocator* allocator, const char* tag,
                                                   int32_t keep_contents, int64_t* given_back_bytes,
                                                   tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Memory at the same addresses again, for what is still live. OK also where the pool is not suspended. OUT_OF_MEMORY
 * and every other failure leave it suspended, whole: it may be tried again. */
TIDEMARK_API tidemark_status tidemark_pool_resume(tidemark_allocator* allocator, const char* tag,
                                                  tidemark_error** error) TIDEMARK_NOEXCEPT;

/* Of captured graphs, by PyTorch's MempoolId_t. A graph that is replayed touches again what was released while it was
 * captured, so the memory of its pool serves no other allocation and is not moved until the graph is gone.
 * While a pool is open, allocations on streams for which the filter answers not 0 come from it; the allocator records
 * no event of its own on such a stream, and does not wait for the device at all. */

/* Whether the stream is captured. Called on threads that allocate; must not open, close or release pools. */
typedef int32_t (*tidemark_stream_filter)(void* user, tidemark_stream stream);
/* Called once, when the filter will not be called any more. */
typedef void (*tidemark_drop)(void* user);
/* Makes the pool where there is none, and opens it. `drop` may be NULL. */
TIDEMARK_API tidemark_status tidemark_graph_pool_begin(tidemark_allocator* allocator, uint64_t first, uint64_t second,
                                                       tidemark_stream_filter filter, tidemark_drop drop, void* user,
                                                       tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Closes it; its memory is kept. INVALID: it is not open. */
TIDEMARK_API tidemark_status tidemark_graph_pool_end(tidemark_allocator* allocator, uint64_t first, uint64_t second,
                                                     tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Once for every begin, when a graph is gone. After the last one the memory is released to the device as soon as no
 * block is live. INVALID: no begin is left. */
TIDEMARK_API tidemark_status tidemark_graph_pool_release(tidemark_allocator* allocator, uint64_t first, uint64_t second,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

/* What `tidemark plan --out` wrote. Thread rule: constant; any threads may use it at once. */
typedef struct tidemark_plan tidemark_plan;

TIDEMARK_API tidemark_status tidemark_plan_read(const char* path, tidemark_plan** plan,
                                                tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The same from memory; `name` stands for the file in messages and may be NULL. */
TIDEMARK_API tidemark_status tidemark_plan_read_text(const char* text, int64_t bytes, const char* name,
                                                     tidemark_plan** plan, tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_plan_free(tidemark_plan* plan) TIDEMARK_NOEXCEPT;

/* Ranks in the plan, at positions 0 to count - 1; a plan may hold some pipeline ranks only. */
TIDEMARK_API tidemark_status tidemark_plan_rank_count(const tidemark_plan* plan, int32_t* count,
                                                      tidemark_error** error) TIDEMARK_NOEXCEPT;

/* Sizes are planned, times modelled. Every step completes within the budget while no expert load is above worst_load_f:
 * the most that routing can send to one device, 1 where nothing is routed. 0: the rank does not fit, or one of its
 * layers cannot run in chunks. */
typedef struct tidemark_rank_figures {
  size_t struct_size;
  int32_t rank; /* pipeline rank */
  int32_t fits;
  double load;         /* expert load planned for */
  double worst_load_f; /* that no step fails for */
  int64_t budget_bytes;
  int64_t peak_bytes; /* reserve included */
  int64_t reserve_bytes;
  int64_t static_bytes;
  int64_t activation_peak_bytes;
  int64_t host_bytes; /* pinned */
  int64_t swapped_bytes_per_step;
  int64_t recompute_ns;
  int64_t added_ns;        /* to a step with everything kept */
  int64_t offloaded_bytes; /* of state at rest in host memory between steps; not in static_bytes */
  int64_t offload_ns;      /* of added_ns: what its copies cost */
} tidemark_rank_figures;
TIDEMARK_API tidemark_status tidemark_plan_rank_figures(const tidemark_plan* plan, int32_t position,
                                                        tidemark_rank_figures* figures,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;

/* The JSON that `tidemark plan --format json` prints of the plan; the caller frees it. BAD_INPUT: the plan is not
 * sound, of another version of Tidemark, or of a policy that is not known. */
TIDEMARK_API tidemark_status tidemark_plan_answer(const tidemark_plan* plan, tidemark_buffer** answer,
                                                  tidemark_error** error) TIDEMARK_NOEXCEPT;

typedef struct tidemark_budget_options {
  size_t struct_size;
  int64_t budget_bytes;      /* of device memory, reserve included, to 2^60 as those below; default: the plan's */
  int64_t host_budget_bytes; /* of pinned memory; default: not looked at */
  int64_t margin_bytes;      /* closer than this below the budget is near */
} tidemark_budget_options;
enum { TIDEMARK_BUDGET_PASS = 0, TIDEMARK_BUDGET_NEAR = 1, TIDEMARK_BUDGET_FAIL = 2 };
typedef struct tidemark_budget_result {
  size_t struct_size;
  int32_t verdict;  /* TIDEMARK_BUDGET_* */
  int32_t position; /* of the rank that comes closest, or exceeds it most */
  int32_t host;     /* not 0: it fails on pinned memory */
  int32_t reserved;
  int64_t budget_bytes;
  int64_t peak_bytes; /* of that rank */
} tidemark_budget_result;
/* Is every rank below the budget? FAIL is an answer, not an error. */
TIDEMARK_API tidemark_status tidemark_plan_check_budget(const tidemark_plan* plan,
                                                        const tidemark_budget_options* options,
                                                        tidemark_budget_result* result,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;

/* Expert load of a site of the plan: a layer and micro-batch on its rank, numbered as in the rank's `sites` in the plan
 * file (docs/formats.md). From 0 to 2^20, else the run is BAD_INPUT. Asked once a step for each site that has routed
 * storages, when the first task that touches one of them is issued; each step may have loads of its own. */
typedef double (*tidemark_load)(void* user, int32_t site);
/* Rows that this device sends to experts, over their mean: always 1 without hierarchical exchange. With it a device
 * sends for its own tokens and those that it gathers from other nodes what the experts of its node get of them: nodes
 * times the mean at most, more where the last node has fewer devices; worst_load_f covers that. Asked with `load`, from
 * 0 to 2^20. */
typedef double (*tidemark_sent_load)(void* user, int32_t site);
/* A section is what one layer and micro-batch does with routed rows between two sums of rows for their tokens, forward
 * or backward. Where the rows of one do not fit, the whole expert group runs it in chunks, since its exchanges
 * match: as many times, each on its share of the rows.
 *
 * In how many chunks the expert group runs a section; 1: whole. `group` is the pipeline rank, `section` the number of
 * the section in its plan, from 0; sections are asked for as they begin. `wanted` is not 0 where the section does not
 * fit whole here; `chunks` is the fewest that this rank needs to run it in chunks, to 2^20, 0: it cannot. Every rank of
 * the group asks once for each section, in the same order, `load` given or not, and must be told the same: 1 if none
 * wants chunks, else the most that any of them needs, but 2 at least; 0 if one wants them and one cannot. A rank that
 * wants chunks and is told fewer than it needs fails. A negative answer ends the run, PEER_LOST, whatever this rank
 * needs: the group is no more. May block until all have asked.
 *
 * The group: all ranks that take part in a collective on routed rows, those that take part in one with them, and so on.
 * All have the same plan and the same number of steps, and either all have `agree` or none: who does not ask is waited
 * for. */
typedef int32_t (*tidemark_agree)(void* user, int32_t group, int32_t section, int32_t wanted, int32_t chunks);
/* This rank asks no more: its run fails. Called once by every run that has `agree` and returns neither OK nor INVALID,
 * before it returns. Ranks that wait for it must be told 0 or a negative number from now on, and where the group had
 * agreed to chunks of a section, its communicators must be aborted. */
typedef void (*tidemark_leave)(void* user, int32_t group);

/* An expert group of processes, on one host or several, that agrees so: for jobs that have no vote of their own. Rank 0
 * counts, on a thread of its own; the others are connected to it. A rank of a forked process is none: what was open is
 * closed there.
 *
 * Time-out. No call waits longer, but for the look-up of a host's name. A rank is late that has not asked when the
 * time-out less a quarter of it (a second at most) has passed since the first that did; the rest is for telling the
 * others. A rank that is late, that is gone (its process ended or its connection broke), left or closed, or asks for
 * another section or by another plan than others: the group is lost, at once and for good, and every call of every rank
 * is PEER_LOST with a text that names the rank and what it asked for last. A rank that computes hears of it when it
 * asks next; work that its device has for the group may wait there: its communicators must be aborted then.
 *
 * Trust: any process that can connect to the address can join or end the group; nothing is encrypted.
 *
 * Thread rule: calls on a group must not overlap; any thread may make them. */
typedef struct tidemark_expert_group tidemark_expert_group;
typedef struct tidemark_expert_group_options {
  size_t struct_size;
  int64_t timeout_ms; /* the same for all ranks; 1 to 86,400,000, default 600,000 */
} tidemark_expert_group_options;
/* `address`: where rank 0 listens: "tcp:HOST:PORT", an interface of rank 0's host; on one host also "unix:PATH" or
 * "unix:@NAME", a name of Linux without a file. `rank`: from 0 to size - 1, of the expert group, each once; `size`: to
 * 4096. A group of one needs no address. Waits until all ranks have opened it, in any order. BAD_INPUT: the address is
 * none, is taken, or this rank has another size or time-out than rank 0, or a number that is taken; PEER_LOST: which
 * rank did not come within the time-out. */
TIDEMARK_API tidemark_status tidemark_expert_group_open(const char* address, int32_t rank, int32_t size,
                                                        const tidemark_expert_group_options* options,
                                                        tidemark_expert_group** group,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;
/* When this rank is through. Ranks that ask after that are told that it has closed. */
TIDEMARK_API void tidemark_expert_group_close(tidemark_expert_group* group) TIDEMARK_NOEXCEPT;
/* What `tidemark_agree` does, for frameworks that run their layers in chunks themselves; tidemark_plan_run_rank calls
 * it for its own. `pipeline_rank` and `section` are what all ranks must name alike. INVALID, and not asked: a number is
 * negative, or `chunks` above 2^20. */
TIDEMARK_API tidemark_status tidemark_expert_group_agree(tidemark_expert_group* group, int32_t pipeline_rank,
                                                         int32_t section, int32_t wanted, int32_t chunks,
                                                         int32_t* answer, tidemark_error** error) TIDEMARK_NOEXCEPT;
/* This rank asks no more, for it has failed: the others are told. */
TIDEMARK_API tidemark_status tidemark_expert_group_leave(tidemark_expert_group* group,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;

typedef struct tidemark_run_options {
  size_t struct_size;
  int64_t scale;  /* sizes are divided by this power of two, to 2^20 and what the plan's alignment allows; default 1 */
  int32_t verify; /* not 0: fill what is written, check what is read */
  int32_t steps;  /* to 2^20; default 1 */
  tidemark_load load;                  /* default: as planned */
  void* user;                          /* of all callbacks */
  tidemark_agree agree;                /* default: this rank decides alone, as if it had no group */
  tidemark_leave leave;                /* default: none waits */
  tidemark_expert_group* expert_group; /* in place of `agree` and `leave`; INVALID beside them. A run that is neither OK
                                          nor INVALID has left it */
  tidemark_sent_load sent_load;        /* default: 1 everywhere. INVALID without `load` */
} tidemark_run_options;
typedef struct tidemark_run_report {
  size_t struct_size;
  int32_t rank;
  int32_t simulated; /* step_ns is virtual */
  int64_t tasks;
  int64_t step_ns;       /* of the last step: measured, or simulated where `simulated` says so */
  int64_t planned_bytes; /* device arenas, scaled */
  int64_t peak_bytes;
  int64_t mapped_bytes;
  int64_t host_peak_bytes;
  int64_t pinned_bytes;
  int64_t copied_out_bytes;
  int64_t copied_in_bytes;
  int64_t chunked_sections; /* of the last step: those that ran in chunks */
  int64_t verified_reads;
  int64_t mismatches;
} tidemark_run_report;
/* Carries one rank's step out on a device; messages to other ranks complete at once. Whatever the loads of the sites,
 * it completes while none is above worst_load_f, which no routing exceeds: what does not fit whole runs in chunks, as
 * soon as the group agrees. INFEASIBLE: memory refused, or a section that does not fit and that the group runs whole,
 * before anything is overwritten; or the device failed on the way (the text says how). PEER_LOST: the expert group is
 * lost. BAD_INPUT: the plan is not sound or of a policy that is not known, cannot run at this scale, or a load is none.
 * The device must not be used by others meanwhile. */
TIDEMARK_API tidemark_status tidemark_plan_run_rank(const tidemark_plan* plan, int32_t position,
                                                    tidemark_device* device, const tidemark_run_options* options,
                                                    tidemark_run_report* report,
                                                    tidemark_error** error) TIDEMARK_NOEXCEPT;

/* ---- Following a plan beside a framework --------------------------------------------------------------------------
 */

/* A framework issues its kernels and allocations itself; the session owns the copies and says what is to be recomputed
 * (docs/c_api.md has a whole program). Ops and storages are numbered as in the graph that was planned. The framework
 * tells the session of an op before it issues it; the session carries out what the plan has due. It looks after
 * *managed* storages alone: those that are copied or made anew, and what these are made from.
 *
 * Blocks are the framework's: a handle that means something to it and the address of the memory. What it hands over
 * with `take`, or answers to a callback with, is the session's until `release`, which comes once for each.
 *
 * An op that comes in another order, or not at all, content that is changed or asked for where the plan does not know
 * of it: departures, never errors. What they concern is kept on the device, or restored when it is asked for.
 *
 * Streams are those of the device: copies run on streams of their own, ordered against the framework's by events.
 * TIDEMARK_CALLING_THREAD in place of a stream: the thread that calls does the work itself, as on a CPU; waits block
 * it.
 *
 * Thread rule: calls on a session, and on what was saved with it, must not overlap; any thread may make them. */
typedef struct tidemark_session tidemark_session;
/* What autograd keeps in the place of a tensor. It outlives the session. */
typedef struct tidemark_saved tidemark_saved;
#define TIDEMARK_CALLING_THREAD UINT64_MAX

typedef struct tidemark_block {
  void* handle; /* NULL: none */
  tidemark_address address;
  int64_t bytes; /* of content from there on: what of it is copied. Other than planned where shapes are */
} tidemark_block;
typedef struct tidemark_source {
  int32_t storage;
  int32_t reserved;
  tidemark_block block;
} tidemark_source;
/* An op that is to be recomputed, on the stream. The framework has what it reads besides `sources`. */
typedef struct tidemark_rebuild {
  size_t struct_size;
  int32_t op;
  int32_t source_count;
  const tidemark_source* sources;
  const int32_t* wanted; /* storages that are to be kept, */
  tidemark_block* made;  /* and where they are now: to be filled, as many */
  int32_t wanted_count;
  int32_t is_last; /* not 0: once this has succeeded the op is not recomputed again in its step */
  tidemark_stream stream;
  int64_t step; /* which of the session's, counted from 1: backward may be of an earlier one */
} tidemark_rebuild;
/* Callbacks come on the thread, and within the call, that makes them necessary. They need `user` until the session is
 * closed and all that was saved is freed. TIDEMARK_STATUS_OK, or why it cannot: the call answers INTERNAL then, and
 * what `made` was filled with is released. */
typedef tidemark_status (*tidemark_rebuild_op)(void* user, const tidemark_rebuild* rebuild);
/* A block for work of the stream, of at least so many bytes. A handle of NULL: out of memory; the call answers
 * INFEASIBLE. */
typedef tidemark_block (*tidemark_take_block)(void* user, int32_t storage, int64_t bytes, tidemark_stream stream);
/* The block is the framework's again; work that the stream was given so far may still use it.
 * TIDEMARK_CALLING_THREAD also from calls that name no stream (free, close): the session's copies of it are over then,
 * and work that the framework gave its own streams may still use it. */
typedef void (*tidemark_release_block)(void* user, tidemark_block block, tidemark_stream stream);

/* 1: nothing but the session holds the block, so that its bytes are free once it is released; 0: something else does.
 */
typedef int32_t (*tidemark_is_idle)(void* user, void* handle);

/* What an op asks its framework's allocator for whenever it runs. */
typedef struct tidemark_request {
  int32_t op;
  int32_t storage;     /* -1: a workspace of the kernel's own */
  int64_t bytes;       /* to 2^60; a storage of more than 512 has what the plan says */
  int64_t least_bytes; /* of a storage whose size varies; 0: it is always what the plan has */
  int64_t offset;      /* of a workspace, in the room that the plan has for all of the op's */
  int32_t is_remade;   /* not 0: a storage of which the step before's is there until it is made anew, as a loss */
  int32_t is_within;   /* not 0: a workspace at `offset` in the place of the storage, which the op asks for once the
                          workspace is released; `bytes` are the workspace's */
} tidemark_request;

typedef struct tidemark_session_options {
  size_t struct_size;
  tidemark_rebuild_op rebuild; /* must be given, as the two below */
  tidemark_take_block take_block;
  tidemark_release_block release;
  void* user;
  int64_t host_bytes;        /* most pinned memory, to 2^60; default: what the plan says and a sixteenth or, with
                                may_spill, as much as the device gives, taken when it is needed */
  const int32_t* part_of_op; /* op_count numbers from 0: which micro-batch; default: the step is one part */
  int32_t op_count;          /* of part_of_op; 0 where it is not given */
  int32_t reserved;
  /* The allocator that serves the framework, or NULL. From the first step on it serves what that step's stream asks for
   * as `requests` say where the plan has it, from one block that it takes then; where it has no room for that block,
   * and for all else, it serves as ever. It outlives the session. */
  tidemark_allocator* allocator;
  const tidemark_request* requests; /* request_count, by ascending op, of each in the order in which it asks */
  int64_t request_count;
  const char*
      record; /* path of a file, emptied first, for the log of every call and what it led to (docs/formats.md) */
  /* For tidemark_session_make_room(); NULL: nothing gives up memory. `may_spill`: storages to manage for it although
   * the plan keeps them; those that outlive the step are left out. With any, the session has pinned memory for them. */
  tidemark_is_idle is_idle;
  const int32_t* may_spill; /* may_spill_count */
  int64_t may_spill_count;
} tidemark_session_options;
/* `plan` and `device` may be closed while the session lives. BAD_INPUT: the plan is not sound, or swaps what outlives
 * the step; the log cannot be written; INFEASIBLE: no streams. */
TIDEMARK_API tidemark_status tidemark_session_open(const tidemark_plan* plan, int32_t position, tidemark_device* device,
                                                   const tidemark_session_options* options, tidemark_session** session,
                                                   tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Content that was saved stays with what was saved. */
TIDEMARK_API void tidemark_session_close(tidemark_session* session) TIDEMARK_NOEXCEPT;

/* 1, 0; 0 also for numbers out of range: whether `take` is wanted, and whether `rebuild` may be asked for the op. */
TIDEMARK_API int32_t tidemark_session_is_managed(const tidemark_session* session, int32_t storage) TIDEMARK_NOEXCEPT;
TIDEMARK_API int32_t tidemark_session_is_rebuilt(const tidemark_session* session, int32_t op) TIDEMARK_NOEXCEPT;

/* Ends the step before, if end_step has not. op, take, adopt, keep, save and end_step need a step that has
 * begun: INVALID without. With TIDEMARK_CALLING_THREAD, what other threads ask the allocator for is none of the
 * step's. */
TIDEMARK_API tidemark_status tidemark_session_begin_step(tidemark_session* session, tidemark_stream stream,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;
enum {
  TIDEMARK_REQUESTS_PLANNED = 0,  /* of the step's ops, as they were planned for */
  TIDEMARK_REQUESTS_OTHER = 1,    /* of other work, which would take the places of planned blocks */
  TIDEMARK_REQUESTS_TRANSIENT = 2 /* of other work, freed before the step goes on: from free planned memory first */
};
/* What the framework asks the allocator for from now on: TIDEMARK_REQUESTS_*, planned ones at first. INVALID: none of
 * these. Without an allocator in the options: no effect. */
TIDEMARK_API tidemark_status tidemark_session_expect_requests(tidemark_session* session, int32_t requests,
                                                              tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The framework is about to issue the op. Of ops that the plan's graph has as not told (docs/formats.md) it need not
 * say. */
TIDEMARK_API tidemark_status tidemark_session_op(tidemark_session* session, int32_t op, tidemark_stream stream,
                                                 tidemark_error** error) TIDEMARK_NOEXCEPT;
/* An op of the step has made the managed storage; the session has the block from now on. INVALID: no handle, or bytes
 * out of range, from 0 to 2^60. */
TIDEMARK_API tidemark_status tidemark_session_take(tidemark_session* session, int32_t storage, tidemark_block block,
                                                   tidemark_stream stream, tidemark_error** error) TIDEMARK_NOEXCEPT;
/* A block of the step that no op of the plan made: the session has it from now on, to give up its memory as that of
 * managed storages. `*storage`: its number, behind those of the plan, for `save` in this step. The block is released
 * once all that was saved of it is used or freed, or with the step where nothing was. Of a block that the step has
 * already: the number that it has, and the reference handed over is released. It may be taken as well: each of the two
 * has a reference. INVALID: as `take`. */
TIDEMARK_API tidemark_status tidemark_session_adopt(tidemark_session* session, tidemark_block block,
                                                    tidemark_stream stream, int32_t* storage,
                                                    tidemark_error** error) TIDEMARK_NOEXCEPT;
/* What the op made in this step cannot be recomputed. */
TIDEMARK_API tidemark_status tidemark_session_keep(tidemark_session* session, int32_t op,
                                                   tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Backward will ask for the managed or adopted storage at `op`, and holds it until `until` has run; -1: not known. A
 * `storage` of -1: the framework keeps what it saves itself, and `use` only says how far backward is; its block is
 * none. */
TIDEMARK_API tidemark_status tidemark_session_save(tidemark_session* session, int32_t storage, int32_t op,
                                                   int32_t until, tidemark_saved** saved,
                                                   tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Backward asks: tells the session of the op it was saved for, and answers where the content is, in order for what the
 * stream is given from now on. `again`, not 0: it may ask once more. `*handed_over`, not 0: the block is the
 * framework's again, and is not released; else it is the session's, there until the session is told of another op or,
 * adopted, until the last that was saved of it is used or freed.
 * After a failure it may ask again. */
TIDEMARK_API tidemark_status tidemark_session_use(tidemark_saved* saved, int32_t again, tidemark_stream stream,
                                                  tidemark_block* block, int32_t* handed_over,
                                                  tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Not asked for any more; for what was used as well. NULL: nothing. */
TIDEMARK_API void tidemark_session_free(tidemark_saved* saved) TIDEMARK_NOEXCEPT;
/* The content of a block, of this step or one that lives on, is about to be changed in place; a block that the session
 * does not have: nothing. `planned`, not 0: by an op of the step, at its time. Otherwise what would be recomputed from
 * it is made now. */
TIDEMARK_API tidemark_status tidemark_session_change(tidemark_session* session, void* handle, int32_t planned,
                                                     tidemark_stream stream, tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The framework's allocator is at its end: managed and adopted storages that it does not hold itself give up device
 * memory until that is `bytes`, or none is left, the one that is needed last first. They are copied out, or have been,
 * or are recomputed; `use` finds them. `*given_up`: bytes. The one call that may be made within `rebuild` and
 * `take_block`. */
TIDEMARK_API tidemark_status tidemark_session_make_room(tidemark_session* session, int64_t bytes,
                                                        tidemark_stream stream, int64_t* given_up,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The managed or adopted storage that the block holds in this step, or -1. */
TIDEMARK_API int32_t tidemark_session_find(const tidemark_session* session, void* handle) TIDEMARK_NOEXCEPT;
/* What may no longer be asked for is released. BAD_INPUT, the step has ended all the same: the log could not be
 * written. That is told once, by this or by begin_step, whose step has begun. */
TIDEMARK_API tidemark_status tidemark_session_end_step(tidemark_session* session, tidemark_stream stream,
                                                       tidemark_error** error) TIDEMARK_NOEXCEPT;

enum {
  TIDEMARK_PINNED_REFUSED = 1,      /* the device gave no more */
  TIDEMARK_PINNED_PAGEABLE = 2,     /* not registered: copies block, and nothing overlaps */
  TIDEMARK_PINNED_NUMA_UNBOUND = 4, /* not on the device's node: copies may run at half speed */
  TIDEMARK_PINNED_SMALL_PAGES = 8,  /* registering and copying are slower */
  TIDEMARK_PINNED_NOT_LOCKED = 16   /* the system may swap it out */
};
typedef struct tidemark_session_report {
  size_t struct_size;
  int64_t steps;
  int64_t rebuilt;       /* recomputed ops */
  int64_t departures;    /* kept, restored or recomputed where the plan says otherwise */
  int64_t kept_for_host; /* of these: not copied out for want of pinned memory */
  int64_t copies_out;
  int64_t copied_out_bytes;
  int64_t copies_in;
  int64_t copied_in_bytes;
  int64_t pieces;       /* copies as submitted, both ways */
  int64_t waits;        /* of the framework's stream for copies */
  int64_t waited_bytes; /* of these copies */
  int64_t late;         /* calling thread: of `waits`, those where the copy was not through */
  int64_t late_bytes;
  int64_t waited_ns;    /* calling thread: measured */
  int64_t pinned_bytes; /* held now */
  int64_t pinned_peak_bytes;
  int64_t steps_open;         /* steps of which something is saved */
  int64_t planned_bytes;      /* of the block from which planned requests are served; 0: there is none */
  int64_t requests_planned;   /* served from it where the plan says */
  int64_t requests_unplanned; /* of the planned stream, served elsewhere */
  int64_t requests_blocked;   /* of these: as planned, but the bytes were still in use */
  int64_t copy_streams;       /* of the session's own; 0: the plan copies nothing */
  int64_t requests_small;     /* of up to 512 bytes, served from places that any of these may take */
  int64_t pinned_shortfalls;  /* TIDEMARK_PINNED_* that apply to the pinned memory, as a sum; 0: it is as asked for */
  int64_t requests_guests;    /* of requests_unplanned: from free planned memory, where there was no other */
  int64_t spilled;            /* storages that gave up device memory for others, to host memory */
  int64_t spilled_bytes;
  int64_t dropped; /* the same without a copy: there is one, or they are recomputed */
  int64_t dropped_bytes;
  int64_t
      requests_other_threads; /* calling thread: of others than the step's, left to the allocator; none of the above */
} tidemark_session_report;
TIDEMARK_API tidemark_status tidemark_session_get_report(const tidemark_session* session,
                                                         tidemark_session_report* report,
                                                         tidemark_error** error) TIDEMARK_NOEXCEPT;

/* ---- Offloading between captured graphs ------------------------------------------------------------------------- */

/* A step that runs as several captured graphs, its *pieces*, each launched whole, over storages that are *away* in host
 * memory while some of the pieces run (docs/design/captured_graphs.md). A storage has one address for good, which a
 * graph may have written into it; memory stands behind that address in the pieces that the storage is not away in, and
 * moves to other addresses in between. Not to be touched otherwise: it is a fault then.
 *
 * The program captures and launches its graphs itself. It calls before_piece() ahead of each launch, on the stream of
 * the launch, and end_step() behind the last. Nothing is called while a stream is being captured, close() included.
 *
 * Thread rule: any thread; calls on a handle must not overlap. INVALID: another thread is inside one. */
typedef struct tidemark_captured tidemark_captured;

/* Where the content of a storage is between two steps. */
enum {
  TIDEMARK_BETWEEN_NOWHERE = 0,   /* it has none: memory from the first touch to the last, but where it is away */
  TIDEMARK_BETWEEN_ON_DEVICE = 1, /* memory all the time, but where it is away */
  TIDEMARK_BETWEEN_IN_HOST = 2    /* copied in once a step at least; memory in every piece, but where it is away */
};
/* What a piece does to a storage. */
typedef struct tidemark_piece_touch {
  int32_t piece;  /* from 0, in the order of launches */
  int32_t reads;  /* not 0: needs the content from before; so does a write in part or in place */
  int32_t writes; /* not 0: leaves other content behind */
  int32_t reserved;
} tidemark_piece_touch;
/* Pieces first to last, both included. */
typedef struct tidemark_piece_span {
  int32_t first;
  int32_t last;
} tidemark_piece_span;
typedef struct tidemark_captured_storage {
  int64_t bytes;   /* from 1; to 2^46 for all storages together */
  int32_t between; /* TIDEMARK_BETWEEN_* */
  int32_t touch_count;
  const tidemark_piece_touch* touches; /* by piece, one a piece */
  const tidemark_piece_span* away;     /* away_count, by piece and a piece or more apart; none: NULL */
  int32_t away_count;
  int32_t reserved;
} tidemark_captured_storage;
typedef struct tidemark_captured_options {
  size_t struct_size;
  int64_t spare_bytes; /* of device memory beyond what the fullest piece needs, in whole granules; to 2^46. With some,
                          the host need not wait for the piece right before where memory moves */
} tidemark_captured_options;
/* `pieces`: 1 to 65536; `storages`: to 2^20, numbered in this order; the arrays are copied. All memory is taken here,
 * and is no more and no less until close(). `device` may be closed meanwhile. BAD_INPUT: what the arrays say cannot be
 * (read before it is written, touched while it is away, ...); the text names the storage. INFEASIBLE: the device has
 * too little memory, or cannot map. */
TIDEMARK_API tidemark_status tidemark_captured_open(tidemark_device* device, int32_t pieces,
                                                    const tidemark_captured_storage* storages, int32_t storage_count,
                                                    const tidemark_captured_options* options,
                                                    tidemark_captured** captured,
                                                    tidemark_error** error) TIDEMARK_NOEXCEPT;
/* Waits for the device. In the middle of a step as well, whose contents are lost. */
TIDEMARK_API void tidemark_captured_close(tidemark_captured* captured) TIDEMARK_NOEXCEPT;
/* For good. */
TIDEMARK_API tidemark_status tidemark_captured_get_address(tidemark_captured* captured, int32_t storage,
                                                           tidemark_address* address,
                                                           tidemark_error** error) TIDEMARK_NOEXCEPT;
typedef struct tidemark_host_range {
  tidemark_address address;
  int64_t bytes;
} tidemark_host_range;
/* Pinned memory that holds the storage while it is away, one range behind the other; of one that is in host memory
 * between steps, where its first content is to be put before the first step. Between two steps, read or written once
 * the device is idle (tidemark_device_synchronize). `ranges` gets the first `capacity` of them; `*count`: how many
 * there are, 0 for a storage that is never copied. */
TIDEMARK_API tidemark_status tidemark_captured_get_host_side(tidemark_captured* captured, int32_t storage,
                                                             tidemark_host_range* ranges, int32_t capacity,
                                                             int32_t* count, tidemark_error** error) TIDEMARK_NOEXCEPT;
/* What `stream` is given from now on is this piece. Copies are submitted, memory is moved, for which the host may wait,
 * and the stream waits for what the piece needs. With TIDEMARK_CALLING_THREAD the thread does the piece's work itself,
 * and waits. A stream that is named comes behind all that the one named before was given until then. INVALID: another
 * piece is due. A failure of the device (INFEASIBLE): the same call again goes on from there. A step that is given up
 * is announced to its end: a piece that is not launched touches nothing. */
TIDEMARK_API tidemark_status tidemark_captured_before_piece(tidemark_captured* captured, int32_t piece,
                                                            tidemark_stream stream,
                                                            tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The last piece has been launched. INVALID: a piece is due. */
TIDEMARK_API tidemark_status tidemark_captured_end_step(tidemark_captured* captured,
                                                        tidemark_error** error) TIDEMARK_NOEXCEPT;

typedef struct tidemark_captured_figures {
  size_t struct_size;
  int64_t peak_bytes;        /* device memory, from opening to closing */
  int64_t address_bytes;     /* of address space */
  int64_t pinned_bytes;      /* host memory for what is away */
  int64_t host_waits_a_step; /* of the host, before memory moves */
  int64_t late_waits_a_step; /* of these: for the piece right before, or a copy behind it; the device stands still */
  int64_t steps;             /* since opening, as all below */
  int64_t host_waits;
  int64_t moves; /* of memory to other addresses, calls of the device */
  int64_t moved_granules;
  int64_t copies_out;
  int64_t copied_out_bytes;
  int64_t copies_in;
  int64_t copied_in_bytes;
} tidemark_captured_figures;
TIDEMARK_API tidemark_status tidemark_captured_get_figures(tidemark_captured* captured,
                                                           tidemark_captured_figures* figures,
                                                           tidemark_error** error) TIDEMARK_NOEXCEPT;

/* ---- Framework hooks -------------------------------------------------------------------------------------------- */

/* Entry points with the signatures that PyTorch's CUDAPluggableAllocator and torch_npu's NPUPluggableAllocator look up
 * by name (docs/c_api.md). One allocator per device index, 0 to 63, serves the process, opened at the first use.
 * `stream` is a cudaStream_t or aclrtStream. A failure is NULL, and the report goes to the log; a device that cannot be
 * opened and an index that is none are said once. Thread rule: any thread.
 *
 * The functions of the two families differ in the device they open and in `reset`.
 *
 * PyTorch does not look whether it was given NULL, and what throws cannot be C: integrations/pytorch has the functions
 * to give it, made of `allocate` and of the functions of graph pools on the handle below. */
/* Where the calling thread allocates by the hooks from now on: the pool of that tag, made on each device at its first
 * allocation, `plain` or not (tidemark_pool_options). NULL: from no pool. */
TIDEMARK_API void tidemark_hooks_set_pool(const char* tag, int32_t plain) TIDEMARK_NOEXCEPT;

TIDEMARK_API void* tidemark_cuda_malloc(ssize_t size, int device, void* stream) TIDEMARK_NOEXCEPT;
/* The same from memory that may be exported, for a pool of the framework's own (torch.cuda.MemPool). */
TIDEMARK_API void* tidemark_cuda_malloc_plain(ssize_t size, int device, void* stream) TIDEMARK_NOEXCEPT;
/* The same with a status and an error instead of NULL and a line in the log. */
TIDEMARK_API tidemark_status tidemark_cuda_allocate(ssize_t size, int device, void* stream, void** pointer,
                                                    tidemark_error** error) TIDEMARK_NOEXCEPT;
/* The allocator behind the hooks, for all functions on allocators and pools. It is never freed; tidemark_allocator_free
 * does nothing. NULL as above. */
TIDEMARK_API tidemark_allocator* tidemark_cuda_allocator(int device) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_cuda_free(void* pointer, ssize_t size, int device, void* stream) TIDEMARK_NOEXCEPT;
/* Opens nothing: a device is opened when it is first used. */
TIDEMARK_API void tidemark_cuda_init(int device_count) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_cuda_reset(void) TIDEMARK_NOEXCEPT; /* releases idle memory */
TIDEMARK_API void tidemark_cuda_set_memory_fraction(double fraction, int device) TIDEMARK_NOEXCEPT;
TIDEMARK_API void* tidemark_cuda_base_alloc(void* pointer, size_t* size) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_cuda_record_stream(void* pointer, void* stream) TIDEMARK_NOEXCEPT;

TIDEMARK_API void* tidemark_npu_malloc(ssize_t size, int device, void* stream) TIDEMARK_NOEXCEPT;
TIDEMARK_API void* tidemark_npu_malloc_plain(ssize_t size, int device, void* stream) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_npu_allocate(ssize_t size, int device, void* stream, void** pointer,
                                                   tidemark_error** error) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_allocator* tidemark_npu_allocator(int device) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_npu_free(void* pointer, size_t size, int device, void* stream) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_npu_init(int device_count) TIDEMARK_NOEXCEPT;
#if defined(__cplusplus)
TIDEMARK_API void tidemark_npu_reset(bool check_error) TIDEMARK_NOEXCEPT;
#else
TIDEMARK_API void tidemark_npu_reset(_Bool check_error);
#endif
/* Of the devices below these hooks, those that are open included, from now on. NULL: nothing is queued. */
TIDEMARK_API void tidemark_npu_set_submit_queued(tidemark_submit_queued submit_queued, void* user) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_npu_set_memory_fraction(double fraction, int device) TIDEMARK_NOEXCEPT;
TIDEMARK_API void* tidemark_npu_base_alloc(void* pointer, size_t* size) TIDEMARK_NOEXCEPT;
/* What torch_npu passes as a C++ object; integrations/npu_shim takes it apart and calls these. */
TIDEMARK_API void tidemark_npu_record_stream(void* pointer, void* stream) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_npu_erase_stream(void* pointer, void* stream) TIDEMARK_NOEXCEPT;
TIDEMARK_API void tidemark_npu_reset_peaks(int device) TIDEMARK_NOEXCEPT;
TIDEMARK_API tidemark_status tidemark_npu_get_statistics(int device,
                                                         tidemark_allocator_statistics* statistics) TIDEMARK_NOEXCEPT;

/* ---- Captured steps --------------------------------------------------------------------------------------------- */

/* Asked while a captured step is planned: first before the search, then many times a second, by one thread at a time,
 * whichever. `share` of the search is done, 0 to 1, never less than before. Not 0: stop; it is not asked again, and the
 * answer is the best plan found by then, checked like any other. It must not call what plans or unload the library. */
typedef int32_t (*tidemark_plan_watch)(void* user, double share);

typedef struct tidemark_graph_options {
  size_t struct_size;
  int64_t budget_bytes;      /* must be given */
  int32_t effort_percent;    /* work for searching; default 100 */
  int32_t group_recompute;   /* not 0: collectives may be recomputed, since all devices follow the same plan */
  tidemark_plan_watch watch; /* may be NULL */
  void* watch_user;
} tidemark_graph_options;
/* What to recompute and to swap, so that a captured step fits a budget, and where every byte lies. `text` is a graph in
 * one of the formats of `tidemark plan --graph` (docs/formats.md), `name` stands for the file in messages and may be
 * NULL. `answer` is the JSON of that command; that no schedule fits is an answer too (its `fits`). `plan_file`, which
 * may be NULL, is what the command writes with `--out`, for a file or for tidemark_plan_read_text. Both are there
 * whether the step fits or not; the caller frees both. Where `watch` stopped the search, `captured` of the answer has
 * `stopped`; only then does the answer depend on the machine's speed. Thread rule: any thread; uses oneTBB's threads.
 */
TIDEMARK_API tidemark_status tidemark_graph_plan(const char* text, int64_t bytes, const char* name,
                                                 const tidemark_graph_options* options, tidemark_buffer** answer,
                                                 tidemark_buffer** plan_file, tidemark_error** error) TIDEMARK_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* TIDEMARK_TIDEMARK_H_ */
