/* The ranks of an expert group agree on layers in chunks: three threads, a simulated device each, one position of a
 * plan. In a job they are processes, and the vote is an all-reduce. How the plan is made is in docs/c_api.md.
 */
#include <pthread.h>
#include <stdio.h>
#include <tidemark/tidemark.h>

enum { kMembers = 3 };

/* A vote after the other. Guarded by `lock`. */
struct Group {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int32_t votes;  /* in the vote that is open */
  int32_t round;  /* votes closed so far */
  int32_t wanted; /* of the open vote: whether anybody does not fit whole, */
  int32_t most;   /* the most chunks that anybody needs, */
  int32_t cannot; /* and whether anybody cannot run in chunks */
  int32_t answer;
  int32_t broken; /* somebody left */
};

struct Member {
  struct Group* group;
  const tidemark_plan* plan;
  double load;
  int64_t device_bytes;
  int32_t chunked; /* sections */
  tidemark_status status;
};

static double load_of(void* user, int32_t site) {
  (void)site; /* the same everywhere */
  return ((const struct Member*)user)->load;
}

static void close_vote(struct Group* group) {
  const int32_t chunks = group->most < 2 ? 2 : group->most;
  group->answer = !group->wanted ? 1 : group->cannot ? 0 : chunks;
  group->wanted = group->most = group->cannot = 0;
  group->votes = 0;
  ++group->round;
  pthread_cond_broadcast(&group->changed);
}

static int32_t agree(void* user, int32_t rank, int32_t section, int32_t wanted, int32_t chunks) {
  struct Member* member = user;
  struct Group* group = member->group;
  int32_t answer, round;
  (void)rank;
  (void)section; /* everybody comes for the same one */
  pthread_mutex_lock(&group->lock);
  round = group->round;
  if (!group->broken) {
    if (wanted) group->wanted = 1;
    if (chunks > group->most) group->most = chunks;
    if (chunks == 0) group->cannot = 1;
    if (++group->votes == kMembers) close_vote(group);
  }
  while (group->round == round && !group->broken) pthread_cond_wait(&group->changed, &group->lock);
  /* Without a vote that closed, 0. One that did counts for all, even if somebody left right after it. */
  answer = group->round != round ? group->answer : 0;
  pthread_mutex_unlock(&group->lock);
  member->chunked += answer > 1;
  return answer;
}

static void leave(void* user, int32_t rank) {
  struct Group* group = ((struct Member*)user)->group;
  (void)rank;
  pthread_mutex_lock(&group->lock);
  group->broken = 1;
  pthread_cond_broadcast(&group->changed);
  pthread_mutex_unlock(&group->lock);
}

static void* run(void* user) {
  struct Member* member = user;
  tidemark_error* error = NULL;
  tidemark_device* device = NULL;
  tidemark_device_options opened = {.struct_size = sizeof opened, .capacity_bytes = member->device_bytes};
  tidemark_run_options options = {
      .struct_size = sizeof options, .load = load_of, .user = member, .agree = agree, .leave = leave};
  tidemark_run_report report = {.struct_size = sizeof report};
  member->status = tidemark_device_open("sim", &opened, &device, &error);
  if (member->status != TIDEMARK_STATUS_OK) {
    leave(member, 0); /* no run, so that nobody else says it */
  } else {
    member->status = tidemark_plan_run_rank(member->plan, 0, device, &options, &report, &error);
  }
  if (error != NULL) printf("load %.4g: %s\n", member->load, tidemark_error_message(error));
  tidemark_error_free(error);
  tidemark_device_close(device);
  return NULL;
}

static void run_group(struct Member* members) {
  struct Group group = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  pthread_t threads[kMembers];
  for (int i = 0; i < kMembers; ++i) {
    members[i].group = &group;
    if (pthread_create(&threads[i], NULL, run, &members[i]) != 0) {
      threads[i] = pthread_self();
      members[i].status = TIDEMARK_STATUS_NO_RESOURCE;
      leave(&members[i], 0);
    }
  }
  for (int i = 0; i < kMembers; ++i)
    if (!pthread_equal(threads[i], pthread_self())) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  tidemark_error* error = NULL;
  tidemark_plan* plan = NULL;
  tidemark_rank_figures figures = {.struct_size = sizeof figures};
  struct Member members[kMembers];
  int well = 0;
  if (argc != 2 || tidemark_plan_read(argv[1], &plan, &error) != TIDEMARK_STATUS_OK ||
      tidemark_plan_rank_figures(plan, 0, &figures, &error) != TIDEMARK_STATUS_OK) {
    fprintf(stderr, "usage: expert_group PLAN; %s\n", tidemark_error_message(error));
    tidemark_error_free(error);
    tidemark_plan_free(plan);
    return 2;
  }
  /* One needs chunks: all run in chunks what it wants so. */
  for (int i = 0; i < kMembers; ++i)
    members[i] = (struct Member){.plan = plan, .load = i == 0 ? figures.worst_load_f : figures.load};
  run_group(members);
  for (int i = 0; i < kMembers; ++i)
    well += members[i].status == TIDEMARK_STATUS_OK && members[i].chunked == members[0].chunked;
  printf("rank %d at load %.4g: %d sections in chunks\n", figures.rank, members[0].load, members[0].chunked);
  well -= members[0].chunked == 0;

  /* One has too little memory: it leaves, the others run whole. */
  for (int i = 0; i < kMembers; ++i)
    members[i] =
        (struct Member){.plan = plan, .load = figures.load, .device_bytes = i == 0 ? figures.peak_bytes / 2 : 0};
  run_group(members);
  for (int i = 1; i < kMembers; ++i) well += members[i].status == TIDEMARK_STATUS_OK && members[i].chunked == 0;
  well += members[0].status == TIDEMARK_STATUS_INFEASIBLE;
  tidemark_plan_free(plan);
  return well == 2 * kMembers ? 0 : 1;
}
