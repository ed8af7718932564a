/* An expert group of eight processes, each with one rank's step of a plan: loads that differ, a rank that dies, is
 * late, does something else, or leaves. Every process ends by itself, and what ends the group names the rank.
 *
 *   expert_group_test PLAN OTHER_PLAN      PLAN: with little room for rows above the planned load; OTHER: of the same
 * job
 */
#define _DEFAULT_SOURCE /* usleep, MAP_ANONYMOUS */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/checks.h"

enum { kRanks = 8, kGuardSeconds = 120, kAmpleMs = 600000, kShortMs = 4000, kSlackMs = 2000 };

/* What a rank's process leaves for the test. */
struct Seen {
  tidemark_status status;
  int64_t chunked; /* sections */
  int64_t answers; /* of those that ask through the callback: a hash of all, */
  int64_t asked;
  int64_t longest_ms; /* and the longest wait */
  char text[1024];
};
/* Shared between the processes. */
struct Shared {
  struct Seen ranks[kRanks];
  int32_t ended; /* processes that are through, atomically */
};
static struct Shared* shared = NULL;

enum Trouble { kNone, kDies, kIsLate, kAsksForOther, kHasOtherPlan, kHasNoRoom };
struct Scenario {
  const tidemark_plan* plan;
  const tidemark_plan* other_plan;
  enum Trouble trouble;
  int32_t culprit;
  int32_t loads_differ;
  int64_t timeout_ms;
};
/* One rank, in its process. */
struct Rank {
  const struct Scenario* scenario;
  tidemark_expert_group* group;
  int32_t rank;
  int32_t sites; /* whose load was asked for */
  double load;
  int keep_alive; /* the end of a pipe: a copy of a process that holds it open lives as long as the test */
};

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A process that a framework's process has forked and that lives on, as one that loads data does. */
static void fork_a_child_that_lives_on(int keep_alive) {
  char byte;
  if (fork() != 0) return;
  alarm(kGuardSeconds);
  while (read(keep_alive, &byte, 1) < 0 && errno == EINTR) continue;
  _exit(0);
}

/* In the middle of the step: the routing of some later layer is known. */
static double load_of(void* user, int32_t site) {
  struct Rank* rank = user;
  const struct Scenario* scenario = rank->scenario;
  (void)site;
  if (++rank->sites == 3 && rank->rank == scenario->culprit) {
    if (scenario->trouble == kDies) {
      fork_a_child_that_lives_on(rank->keep_alive);
      raise(SIGKILL);
    }
    while (scenario->trouble == kIsLate && __atomic_load_n(&shared->ended, __ATOMIC_ACQUIRE) < kRanks - 1) usleep(1000);
  }
  return rank->load;
}

/* The same vote by the callback of the run, and noted. */
static int32_t agree(void* user, int32_t pipeline_rank, int32_t section, int32_t wanted, int32_t chunks) {
  struct Rank* rank = user;
  struct Seen* seen = &shared->ranks[rank->rank];
  const int64_t began_ms = now_ms();
  tidemark_error* error = NULL;
  int32_t answer = -1;
  const int other = rank->scenario->trouble == kAsksForOther && rank->rank == rank->scenario->culprit && section == 2;
  tidemark_expert_group_agree(rank->group, pipeline_rank, section + other, wanted, chunks, &answer, &error);
  if (now_ms() - began_ms > seen->longest_ms) seen->longest_ms = now_ms() - began_ms;
  if (error != NULL) snprintf(seen->text, sizeof seen->text, "%s", tidemark_error_message(error));
  tidemark_error_free(error);
  ++seen->asked;
  seen->answers = (seen->answers * 31 + answer) % 1000000007;
  return answer;
}
static void leave(void* user, int32_t pipeline_rank) {
  (void)pipeline_rank;
  tidemark_expert_group_leave(((struct Rank*)user)->group, NULL);
}

/* Odd ranks and the one that asks for another section vote by the callbacks, the others by the option. */
static void run_rank(struct Rank* rank) {
  const struct Scenario* scenario = rank->scenario;
  struct Seen* seen = &shared->ranks[rank->rank];
  const int is_culprit = rank->rank == scenario->culprit;
  const int by_callback = rank->rank % 2 == 1 || (is_culprit && scenario->trouble == kAsksForOther);
  tidemark_rank_figures figures = {.struct_size = sizeof figures};
  tidemark_device_options opened = {.struct_size = sizeof opened};
  tidemark_run_options options = {.struct_size = sizeof options, .load = load_of, .user = rank};
  tidemark_run_report report = {.struct_size = sizeof report};
  tidemark_device* device = NULL;
  tidemark_error* error = NULL;
  const tidemark_plan* plan = is_culprit && scenario->trouble == kHasOtherPlan ? scenario->other_plan : scenario->plan;
  CHECK_OK(tidemark_plan_rank_figures(plan, 0, &figures, error));
  if (is_culprit && scenario->trouble == kHasNoRoom) opened.capacity_bytes = 1 << 20;
  CHECK_OK(tidemark_device_open("sim", &opened, &device, error));
  rank->load = figures.load;
  if (scenario->loads_differ) rank->load += (figures.worst_load_f - figures.load) * rank->rank / (kRanks - 1);
  options.agree = by_callback ? agree : NULL;
  options.leave = by_callback ? leave : NULL;
  options.expert_group = by_callback ? NULL : rank->group;
  seen->status = tidemark_plan_run_rank(plan, 0, device, &options, &report, &error);
  seen->chunked = report.chunked_sections;
  if (error != NULL && seen->text[0] == '\0')
    snprintf(seen->text, sizeof seen->text, "%s", tidemark_error_message(error));
  tidemark_error_free(error);
  tidemark_device_close(device);
}

static int process_of_rank(const struct Scenario* scenario, const char* address, int32_t number, int keep_alive) {
  struct Rank rank = {.scenario = scenario, .rank = number, .keep_alive = keep_alive};
  tidemark_expert_group_options options = {.struct_size = sizeof options, .timeout_ms = scenario->timeout_ms};
  alarm(kGuardSeconds); /* who hangs is ended, and fails */
  CHECK_OK(tidemark_expert_group_open(address, number, kRanks, &options, &rank.group, error));
  if (rank.group != NULL) run_rank(&rank);
  __atomic_add_fetch(&shared->ended, 1, __ATOMIC_RELEASE);
  tidemark_expert_group_close(rank.group);
  return failures;
}

/* Forks the eight, last rank first, and waits for all. */
static void run_scenario(const struct Scenario* scenario) {
  static int scenarios = 0;
  char address[64];
  pid_t processes[kRanks];
  int keep_alive[2];
  int32_t rank;
  snprintf(address, sizeof address, "unix:@tidemark-%d-%d", (int)getpid(), ++scenarios);
  memset(shared, 0, sizeof *shared);
  CHECK(pipe(keep_alive) == 0);
  for (rank = kRanks - 1; rank >= 0; --rank) {
    processes[rank] = fork();
    CHECK(processes[rank] >= 0);
    if (processes[rank] != 0) continue;
    close(keep_alive[1]);
    failures = 0;
    _exit(process_of_rank(scenario, address, rank, keep_alive[0]) == 0 ? 0 : 1);
  }
  for (rank = 0; rank < kRanks; ++rank) {
    const int killed = scenario->trouble == kDies && rank == scenario->culprit;
    int status = 0;
    CHECK(waitpid(processes[rank], &status, 0) == processes[rank]);
    CHECK(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(shared->ranks[rank].longest_ms <= scenario->timeout_ms + kSlackMs);
  }
  close(keep_alive[1]);
  close(keep_alive[0]);
}

/* All are told the same, the most that any needs: all have the same sections in chunks. */
static void test_loads_that_differ(const tidemark_plan* plan) {
  const struct Scenario scenario = {.plan = plan, .culprit = -1, .loads_differ = 1, .timeout_ms = kAmpleMs};
  int32_t rank;
  run_scenario(&scenario);
  CHECK(shared->ranks[0].chunked > 0 && shared->ranks[1].asked >= shared->ranks[1].chunked);
  for (rank = 0; rank < kRanks; ++rank) {
    const struct Seen* seen = &shared->ranks[rank];
    if (seen->status != TIDEMARK_STATUS_OK) fprintf(stderr, "rank %d: %s\n", (int)rank, seen->text);
    CHECK(seen->status == TIDEMARK_STATUS_OK);
    CHECK(seen->chunked == shared->ranks[0].chunked);
    if (rank % 2 == 1) CHECK(seen->asked == shared->ranks[1].asked && seen->answers == shared->ranks[1].answers);
  }
}

/* All but the culprit end with PEER_LOST and these words. */
static void expect_lost(const struct Scenario* scenario, const char* says, const char* says_too) {
  int32_t rank;
  run_scenario(scenario);
  for (rank = 0; rank < kRanks; ++rank) {
    const struct Seen* seen = &shared->ranks[rank];
    if (rank == scenario->culprit) continue;
    CHECK(seen->status == TIDEMARK_STATUS_PEER_LOST);
    CHECK(strstr(seen->text, says) != NULL && strstr(seen->text, says_too) != NULL);
    if (strstr(seen->text, says) == NULL || strstr(seen->text, says_too) == NULL)
      fprintf(stderr, "trouble %d, rank %d: '%s'\n", (int)scenario->trouble, (int)rank, seen->text);
  }
}

static void test_troubles(const tidemark_plan* plan, const tidemark_plan* other_plan) {
  struct Scenario scenario = {.plan = plan, .other_plan = other_plan, .timeout_ms = kAmpleMs};
  scenario.trouble = kDies; /* long before the time-out */
  scenario.culprit = 3;
  expect_lost(&scenario, "rank 3 of the 8 of the expert group is gone", "it asked last for section");
  scenario.culprit = 0; /* who counts */
  expect_lost(&scenario, "rank 0 of the 8 of the expert group is gone", "it asked last for section");

  scenario.trouble = kAsksForOther;
  scenario.culprit = 2;
  expect_lost(&scenario, " are out of step: rank ", "rank 2 ");
  scenario.trouble = kHasOtherPlan;
  expect_lost(&scenario, " have different plans", "2 ");
  scenario.trouble = kHasNoRoom;
  scenario.culprit = 4;
  expect_lost(&scenario, "rank 4 of the 8 of the expert group has left", "it has asked for no section yet");
  CHECK(shared->ranks[4].status == TIDEMARK_STATUS_INFEASIBLE);

  scenario.trouble = kIsLate;
  scenario.timeout_ms = kShortMs;
  scenario.culprit = 5;
  expect_lost(&scenario, "rank 5 of the 8 of the expert group is late: others have waited 3000 ms", "");
  CHECK(shared->ranks[5].status == TIDEMARK_STATUS_PEER_LOST);
  CHECK(strstr(shared->ranks[5].text, "rank 5 of the 8 of the expert group is late") != NULL);
}

static void test_arguments(const tidemark_plan* plan) {
  tidemark_expert_group* group = NULL;
  tidemark_expert_group_options options = {.struct_size = sizeof options, .timeout_ms = -1};
  tidemark_device* device = NULL;
  tidemark_run_options run = {.struct_size = sizeof run};
  tidemark_run_report report = {.struct_size = sizeof report};
  int32_t answer = 7;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "group is NULL", tidemark_expert_group_open("", 0, 1, NULL, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "size is 0", tidemark_expert_group_open("", 0, 0, NULL, &group, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "rank is 2", tidemark_expert_group_open("", 2, 2, NULL, &group, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "address is NULL",
                tidemark_expert_group_open(NULL, 0, 2, NULL, &group, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "timeout_ms is -1",
                tidemark_expert_group_open("unix:@x", 0, 2, &options, &group, error));
  CHECK_REFUSED(TIDEMARK_STATUS_BAD_INPUT, "address 'x:y': it must be",
                tidemark_expert_group_open("x:y", 0, 2, NULL, &group, error));
  options.timeout_ms = 20;
  CHECK_REFUSED(TIDEMARK_STATUS_PEER_LOST, "rank 1 of the 2 of the expert group is late",
                tidemark_expert_group_open("unix:@tidemark-alone", 0, 2, &options, &group, error));
  CHECK(group == NULL);
  CHECK(strcmp(tidemark_status_name(TIDEMARK_STATUS_PEER_LOST), "peer_lost") == 0);

  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "group is NULL",
                tidemark_expert_group_agree(NULL, 0, 0, 0, 0, &answer, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "group is NULL", tidemark_expert_group_leave(NULL, error));
  tidemark_expert_group_close(NULL);
  CHECK_OK(tidemark_expert_group_open(NULL, 0, 1, NULL, &group, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "answer is NULL", tidemark_expert_group_agree(group, 0, 0, 1, 5, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "is negative",
                tidemark_expert_group_agree(group, 0, -1, 1, 5, &answer, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "chunks is 1048577",
                tidemark_expert_group_agree(group, 0, 0, 1, (1 << 20) + 1, &answer, error));
  CHECK(answer == 7);
  CHECK_OK(tidemark_expert_group_agree(group, 0, 0, 1, 5, &answer, error));
  CHECK(answer == 5);
  CHECK_OK(tidemark_device_open("sim", NULL, &device, error));
  run.expert_group = group;
  CHECK_OK(tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  run.agree = agree;
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "expert_group stands in the place of agree",
                tidemark_plan_run_rank(plan, 0, device, &run, &report, error));
  CHECK_OK(tidemark_expert_group_agree(group, 0, 1, 0, 5, &answer, error)); /* what is INVALID leaves nothing */
  CHECK(answer == 1);
  CHECK_OK(tidemark_expert_group_leave(group, error));
  CHECK_REFUSED(TIDEMARK_STATUS_PEER_LOST, "rank 0 of the 1 of the expert group has left",
                tidemark_expert_group_agree(group, 0, 2, 0, 5, &answer, error));
  tidemark_expert_group_close(group);
  tidemark_device_close(device);
}

int main(int argc, char** argv) {
  tidemark_plan* plans[2] = {NULL, NULL};
  int i;
  if (argc != 3) return 2;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  for (i = 0; i < 2; ++i) CHECK_OK(tidemark_plan_read(argv[i + 1], &plans[i], error));
  if (failures == 0) {
    test_loads_that_differ(plans[0]);
    test_troubles(plans[0], plans[1]);
    test_arguments(plans[0]); /* last: it has threads, and the others fork */
  }
  for (i = 0; i < 2; ++i) tidemark_plan_free(plans[i]);
  if (failures == 0) puts("all well");
  return failures == 0 ? 0 : 1;
}
