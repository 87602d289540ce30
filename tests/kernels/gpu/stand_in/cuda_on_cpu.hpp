// Runs CUDA kernels on the CPU, for tests: each thread of a block is a fiber that runs until it
// waits for its warp or its block.
//
// What it is strict about: shared memory starts as NaN; what cp.async copies arrives only when it
// is waited for; fibers run in rising, falling or scattered order, so that a missing barrier shows
// as a different result; a block whose threads wait for each other in vain is an error.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#define TUSK_ON_CPU
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ const

using std::fabs, std::fmax, std::fmin, std::exp, std::log1p, std::sqrt, std::isfinite;

struct Dim {
    unsigned x = 1, y = 1, z = 1;
};
static Dim threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) float4 {
    float x, y, z, w;
};
template <class V> V __ldcg(const V *place) {
    return *place;
}

namespace tusk_cpu {

enum Wait { RUNS, AT_WARP, AT_BLOCK, DONE };
constexpr size_t STACK = 128 << 10;

struct Copy {
    void *to;
    const void *from;
    int bytes;
};

struct Fiber {
    ucontext_t context; // where it begins; later switches need no system call
    jmp_buf place;
    bool began;
    std::vector<char> stack;
    Wait wait = DONE;
    std::vector<std::vector<Copy>> groups; // committed copies
    std::vector<Copy> open;
};

static std::vector<Fiber> fibers;
static jmp_buf scheduler;
static int current, n_threads;
static uint64_t slots[64 * 32]; // what lanes exchange
static void (*body)();

static void enter() {
    body();
    fibers[current].wait = DONE;
    _longjmp(scheduler, 1);
}

static void wait_for(Wait what) {
    fibers[current].wait = what;
    if (!_setjmp(fibers[current].place))
        _longjmp(scheduler, 1);
}

static void resume(Fiber &f) {
    if (_setjmp(scheduler))
        return;
    if (f.began)
        _longjmp(f.place, 1);
    f.began = true;
    setcontext(&f.context);
}

static bool all_wait(int first, int last, Wait what) {
    bool any = false;
    for (int i = first; i < last; i++) {
        if (fibers[i].wait != what && fibers[i].wait != DONE)
            return false;
        any = any || fibers[i].wait == what;
    }
    return any;
}

static bool release(int first, int last, Wait what) {
    if (!all_wait(first, last, what))
        return false;
    for (int i = first; i < last; i++)
        if (fibers[i].wait == what)
            fibers[i].wait = RUNS;
    return true;
}

static int nth(int i, int order) {
    if (order == 0)
        return i;
    if (order == 1)
        return n_threads - 1 - i;
    return (int)((i * 37L + 11) % n_threads); // 37 is prime to all multiples of 32
}

// Runs one block; false: its threads wait in vain.
static bool run_block(int order) {
    for (int i = 0; i < n_threads; i++) {
        Fiber &f = fibers[i];
        f.stack.resize(STACK);
        f.groups.clear();
        f.open.clear();
        f.wait = RUNS;
        f.began = false;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = nullptr;
        makecontext(&f.context, enter, 0);
    }
    for (;;) {
        bool ran = false;
        for (int i = 0; i < n_threads; i++) {
            current = nth(i, order);
            if (fibers[current].wait != RUNS)
                continue;
            threadIdx.x = (unsigned)current;
            resume(fibers[current]);
            ran = true;
        }
        bool freed = false;
        for (int first = 0; first < n_threads; first += 32)
            freed |= release(first, std::min(first + 32, n_threads), AT_WARP);
        freed |= release(0, n_threads, AT_BLOCK);
        if (!ran && !freed)
            return all_wait(0, n_threads, DONE);
    }
}

template <class V> V exchange(V value, int from) {
    static_assert(sizeof(V) <= 8);
    int warp = current / 32 * 32;
    std::memcpy(&slots[current], &value, sizeof value);
    wait_for(AT_WARP);
    V found;
    std::memcpy(&found, &slots[warp + from], sizeof found);
    wait_for(AT_WARP);
    return found;
}

} // namespace tusk_cpu

inline void __syncthreads() {
    tusk_cpu::wait_for(tusk_cpu::AT_BLOCK);
}
inline void __syncwarp(unsigned = 0xffffffffu) {
    tusk_cpu::wait_for(tusk_cpu::AT_WARP);
}
template <class V> V __shfl_xor_sync(unsigned, V v, int mask) {
    return tusk_cpu::exchange(v, (tusk_cpu::current % 32) ^ mask);
}
template <class V> V __shfl_sync(unsigned, V v, int lane) {
    return tusk_cpu::exchange(v, lane % 32);
}

// A warp's product of 8 x 4 by 4 x 8 numbers, as the tensor cores' m8n8k4 has them.
inline void tusk_multiply_add(double *c, double a, double b) {
    const int lane = tusk_cpu::current % 32;
    double row[4];
    for (int k = 0; k < 4; k++)
        row[k] = tusk_cpu::exchange(a, lane / 4 * 4 + k);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            c[i] += row[k] * tusk_cpu::exchange(b, (lane % 4 * 2 + i) * 4 + k);
}

inline void tusk_queue_copy(void *to, const void *from, int bytes) {
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes) {
        std::fprintf(stderr, "cp.async of %d bytes is not aligned\n", bytes);
        std::abort();
    }
    tusk_cpu::fibers[tusk_cpu::current].open.push_back({to, from, bytes});
}
inline void tusk_end_of_copies() {
    auto &f = tusk_cpu::fibers[tusk_cpu::current];
    f.groups.push_back(std::move(f.open));
    f.open.clear();
}
inline void tusk_await_copies(int left) {
    auto &f = tusk_cpu::fibers[tusk_cpu::current];
    while ((int)f.groups.size() > left) {
        for (const auto &c : f.groups.front())
            std::memcpy(c.to, c.from, c.bytes);
        f.groups.erase(f.groups.begin());
    }
}

alignas(128) static double shared[232448 / 8]; // dynamic shared memory: an H200's most

// Arguments as the driver takes them: an address each.
template <class... A, size_t... I>
void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_cv_t<A> *)arguments[I]...);
}

template <class... A>
int launch(void (*kernel)(A...), const unsigned *grid, unsigned threads, int64_t shared_bytes,
           void **arguments, int order) {
    static void (*chosen)(A...);
    static void **given;
    if (shared_bytes > (int64_t)sizeof shared || threads > 1024 || threads % 32 ||
        grid[0] > 2147483647u || grid[1] > 65535 || !grid[0] || !grid[1])
        return 2;
    chosen = kernel;
    given = arguments;
    tusk_cpu::body = [] { call(chosen, given, std::index_sequence_for<A...>{}); };
    tusk_cpu::n_threads = (int)threads;
    if (tusk_cpu::fibers.size() < threads)
        tusk_cpu::fibers.resize(threads);
    blockDim = {threads, 1, 1};
    gridDim = {grid[0], grid[1], 1};
    for (unsigned y = 0; y < grid[1]; y++)
        for (unsigned x = 0; x < grid[0]; x++) {
            blockIdx = {x, y, 0};
            std::fill_n(shared, (shared_bytes + 7) / 8, std::numeric_limits<double>::quiet_NaN());
            if (!tusk_cpu::run_block(order))
                return 1;
        }
    return 0;
}
