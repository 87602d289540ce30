#include "shares.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "training.hpp"

namespace tusk {

namespace {

constexpr uint64_t MAGIC = 0x3173657261687374; // "tshares1"
constexpr int MOST = 512;                      // entries; trainings beyond have none
constexpr int64_t IN_REMOVAL = -1;             // in place of a process
constexpr double YOUNG = 0.02;                 // seconds without an entry
constexpr double LOOK_EVERY = 0.25;            // seconds, at entries of processes that ended

// In shared memory. Numbers are atomic because other processes read them at any time; texts end
// with a NUL that is never overwritten, and may be mixed while they change.
struct Slot {
    std::atomic<int64_t> pid; // 0: free
    std::atomic<int64_t> process_began;
    std::atomic<int32_t> ready, wanted;
    std::atomic<double> weight, began;
    std::atomic<int64_t> groups, done;
    char task[TS_TASK_BYTES], plan[TS_PLAN_BYTES];
};

struct Table {
    uint64_t magic;
    std::atomic<uint64_t> generation; // rises whenever shares may change
    std::array<Slot, MOST> slots;
};
static_assert(std::atomic<double>::is_always_lock_free);
static_assert(std::atomic<int64_t>::is_always_lock_free);

double seconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Monotonic: no change of the clock moves it, and all processes of a host read the same.
double now() {
    return seconds(CLOCK_MONOTONIC_COARSE);
}

// When a process began, in ticks since the host started; 0: there is none of this number. A number
// is given again after a while, and then its process began later.
int64_t began_of(int64_t pid) {
    char path[64], text[1024];
    std::snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? 0 : -1;
    const ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return 0;
    text[size] = 0;
    const char *at = std::strrchr(text, ')'); // names may have blanks and parentheses
    for (int field = 2; at && field < 22; field++)
        at = std::strchr(at + 1, ' ');
    return at ? std::strtoll(at, nullptr, 10) : -1;
}

// Of trainings that begin; null: they have no entries. A table stays mapped, as trainings that
// began before still have entries in it.
Table *current = nullptr;
char current_path[4096];
double own_weight = 1;
int64_t own_pid = 0, own_began = 0;
std::mutex mutex; // of what is above, and of entries that are made

// An entry that its process left behind, as killed ones do, is free again.
bool gone(const Slot &slot, int64_t pid) {
    const int64_t noted = slot.process_began.load();
    if (pid == own_pid)
        return noted > 0 && noted != own_began;
    const int64_t began = began_of(pid);
    return began == 0 || (began > 0 && noted > 0 && began != noted);
}

// Lets others have the entry, which by then says nothing of its owner.
void release(Slot &slot) {
    slot.ready = 0;
    slot.process_began = 0;
    slot.pid = 0;
}

void remove_gone(Table &of) {
    for (Slot &slot : of.slots) {
        int64_t pid = slot.pid.load();
        if (pid > 0 && gone(slot, pid) && slot.pid.compare_exchange_strong(pid, IN_REMOVAL)) {
            release(slot);
            of.generation.fetch_add(1);
        }
    }
}

struct Found {
    const Slot *slot;
    double began;
    int32_t wanted;
    double weight;
};

// The entries, in the order in which they began.
std::vector<Found> entries(const Table &of) {
    std::vector<Found> found;
    for (const Slot &slot : of.slots)
        if (slot.pid.load() > 0 && slot.ready.load()) {
            const double weight = slot.weight.load();
            found.push_back({&slot, slot.began.load(), std::max(slot.wanted.load(), 1),
                             weight > 0 && weight < 1e6 ? weight : 1});
        }
    std::sort(found.begin(), found.end(), [](const Found &a, const Found &b) {
        return a.began != b.began ? a.began < b.began : a.slot < b.slot;
    });
    return found;
}

std::vector<int32_t> shares(const std::vector<Found> &of, int32_t cores) {
    std::vector<int32_t> wanted, share(of.size());
    std::vector<double> weight;
    for (const Found &one : of) {
        wanted.push_back(one.wanted);
        weight.push_back(one.weight);
    }
    ts_max_min((int32_t)of.size(), wanted.data(), weight.data(), cores, share.data());
    return share;
}

// Copies what fits of a text; the last byte stays 0. A text in shared memory may lack its NUL.
void put(char *to, size_t size, const char *text) {
    const size_t length = strnlen(text, size - 1);
    std::memcpy(to, text, length);
    std::memset(to + length, 0, size - 1 - length);
}

} // namespace

struct Training {
    char task[TS_TASK_BYTES] = {}, plan[TS_PLAN_BYTES] = {};
    int64_t groups = 0, done = 0;
    int32_t cores = 1;
    int depth = 0, forks = 0;
    std::atomic<int> parts{1}; // threads that train for it at the same time
    double began = 0;

    Table *table = nullptr;
    std::atomic<Slot *> slot{nullptr};
    std::atomic<int32_t> wanted{1}, share{INT_MAX};
    std::atomic<uint64_t> generation{0};
    std::atomic<double> looked{0};
    std::atomic<bool> tried{false}; // an entry was asked for; there may have been no place
    std::mutex looking;

    int threads(int of_part) {
        const double time = now();
        const int n = parts.load(std::memory_order_relaxed), asked = of_part * n;
        if (!slot.load(std::memory_order_relaxed)) {
            if (tried.load(std::memory_order_relaxed) || time - began < YOUNG)
                return of_part;
            enter(asked);
        }
        Slot *mine = slot.load();
        if (!mine)
            return of_part;
        if (asked > wanted.load(std::memory_order_relaxed)) {
            wanted = asked;
            mine->wanted = asked;
            table->generation.fetch_add(1);
        }
        if (table->generation.load(std::memory_order_acquire) != generation.load() ||
            time - looked.load() > LOOK_EVERY)
            look(time);
        return std::min(of_part, share.load(std::memory_order_relaxed) / n);
    }

    void leave() {
        std::lock_guard lock(mutex);
        Slot *mine = slot.exchange(nullptr);
        if (mine) {
            release(*mine);
            table->generation.fetch_add(1);
        }
    }

private:
    void enter(int asked) {
        std::lock_guard lock(mutex);
        if (tried.exchange(true) || !table)
            return;
        for (Slot &one : table->slots) {
            int64_t free = 0;
            if (!one.pid.compare_exchange_strong(free, own_pid))
                continue;
            one.ready = 0;
            one.process_began = own_began;
            wanted = asked;
            one.wanted = asked;
            one.weight = own_weight;
            one.began = began;
            one.groups = groups;
            one.done = done;
            put(one.task, sizeof one.task, task);
            put(one.plan, sizeof one.plan, plan);
            one.ready = 1;
            table->generation.fetch_add(1);
            slot = &one;
            return;
        }
    }

    // One thread of the training looks, others go on with what they know.
    void look(double time) {
        std::unique_lock lock(looking, std::try_to_lock);
        Slot *mine = slot.load();
        if (!lock || !mine)
            return;
        if (time - looked.load() > LOOK_EVERY)
            remove_gone(*table);
        generation = table->generation.load();
        looked = time;
        const std::vector<Found> all = entries(*table);
        const std::vector<int32_t> each = shares(all, cores);
        for (size_t i = 0; i < all.size(); i++)
            if (all[i].slot == mine)
                share = each[i];
    }
};

namespace {

thread_local Training own;
// Another thread's training, a part of which the calling thread trains, and `forks` then.
thread_local Training *joined = nullptr;
thread_local int joined_forks = 0;
std::atomic<int> forks{0};

// A child's trainings are its own; entries that it inherits are its parent's.
void in_child() {
    forks++;
    new (&mutex) std::mutex;
    own_pid = getpid();
    own_began = began_of(own_pid);
}

int open_table(const char *path, Table **out) {
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return errno;
    struct stat facts;
    int problem = fstat(file, &facts) ? errno : 0;
    if (!problem && (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid()))
        problem = EPERM;
    // Without the space, the first write to a page would end the process.
    if (!problem && facts.st_size < (off_t)sizeof(Table))
        problem = posix_fallocate(file, 0, sizeof(Table));
    void *at = MAP_FAILED;
    if (!problem) {
        at = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        problem = at == MAP_FAILED ? errno : 0;
    }
    close(file);
    if (problem)
        return problem;
    auto *made = static_cast<Table *>(at);
    uint64_t none = 0;
    std::atomic_ref<uint64_t> magic(made->magic);
    if (!magic.compare_exchange_strong(none, MAGIC) && none != MAGIC) {
        munmap(at, sizeof(Table));
        return EPROTO;
    }
    *out = made;
    return 0;
}

} // namespace

static Training *own_training() {
    return own.depth && own.forks == forks.load(std::memory_order_relaxed) ? &own : nullptr;
}

Training *training_of_thread() {
    if (joined && joined_forks == forks.load(std::memory_order_relaxed))
        return joined;
    return own_training();
}

int threads_of(Training *training, int wanted) {
    return training ? std::max(1, training->threads(wanted)) : wanted;
}

} // namespace tusk

using namespace tusk;

int ts_shares_open(const char *path, double weight) {
    std::lock_guard lock(tusk::mutex);
    if (std::strlen(path) >= sizeof current_path)
        return ENAMETOOLONG;
    own_weight = weight;
    if (current && std::strcmp(path, current_path) == 0)
        return 0;
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(nullptr, nullptr, in_child); });
    own_pid = getpid();
    own_began = began_of(own_pid);
    const int problem = open_table(path, &current);
    if (!problem)
        std::strcpy(current_path, path);
    return problem;
}

void ts_shares_close(void) {
    std::lock_guard lock(tusk::mutex);
    current = nullptr;
}

void ts_training_begin(const char *task, int64_t groups, int32_t cores) {
    if (own.forks != forks.load()) { // a parent's, in a child
        own.depth = 0;
        own.slot = nullptr;
        new (&own.looking) std::mutex;
        own.forks = forks.load();
    }
    if (own.depth++)
        return;
    {
        std::lock_guard lock(tusk::mutex);
        own.table = current;
    }
    put(own.task, sizeof own.task, task);
    own.plan[0] = 0;
    own.groups = groups;
    own.done = 0;
    own.cores = cores;
    own.began = now();
    own.wanted = 1;
    own.share = INT_MAX;
    own.generation = 0;
    own.looked = own.began;
    own.tried = false;
    own.parts = 1;
}

void ts_training_end(void) {
    if (own.depth && --own.depth == 0)
        own.leave();
}

void *ts_training_split(int32_t parts) {
    Training *mine = own_training();
    if (mine)
        mine->parts = std::max(parts, 1);
    return mine;
}

void ts_training_join(void *training) {
    joined = (Training *)training;
    joined_forks = forks.load();
}

void ts_training_plan(const char *plan) {
    if (!own_training())
        return;
    put(own.plan, sizeof own.plan, plan);
    if (Slot *slot = own.slot.load())
        put(slot->plan, sizeof slot->plan, plan);
}

void ts_training_progress(int64_t groups) {
    if (!own_training())
        return;
    own.done += groups;
    if (Slot *slot = own.slot.load())
        slot->done = own.done;
}

int32_t ts_shares_list(ts_entry *out, int32_t n, int32_t cores) {
    Table *table;
    {
        std::lock_guard lock(tusk::mutex);
        table = current;
    }
    if (!table)
        return -1;
    remove_gone(*table);
    const std::vector<Found> all = entries(*table);
    const std::vector<int32_t> each = shares(all, cores);
    const double time = now();
    for (int32_t i = 0; i < std::min(n, (int32_t)all.size()); i++) {
        const Slot &slot = *all[i].slot;
        out[i] = {.pid = slot.pid.load(),
                  .wanted = all[i].wanted,
                  .share = each[i],
                  .weight = all[i].weight,
                  .seconds = time - all[i].began,
                  .groups = slot.groups.load(),
                  .done = slot.done.load(),
                  .task = {},
                  .plan = {}};
        put(out[i].task, sizeof out[i].task, slot.task);
        put(out[i].plan, sizeof out[i].plan, slot.plan);
    }
    return (int32_t)all.size();
}

void ts_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                int32_t *share) {
    std::fill_n(share, n, 1);
    for (int32_t left = cores - n; left > 0; left--) {
        int32_t least = -1; // per weight; the first of equals
        for (int32_t i = 0; i < n; i++)
            if (share[i] < wanted[i] &&
                (least < 0 || share[i] * weight[least] < share[least] * weight[i]))
                least = i;
        if (least < 0)
            return;
        share[least]++;
    }
}
