// Counts the arrays of a training, NumPy's and the kernels', in the memory account of its rows.
//
// NumPy allocates through a handler, which can be set per Python thread (NEP 49). This handler
// uses malloc, but fails when the account has no room; NumPy then raises MemoryError. An array may
// outlive its training; once the training is closed, the array no longer counts.
#include "working.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include <pthread.h>

namespace {

// PyDataMem_Handler of NumPy's ndarraytypes.h, version 1.
struct Allocator {
    void *ctx;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *, size_t);
};
struct Handler {
    char name[127];
    uint8_t version;
    Allocator allocator;
};

constexpr size_t HEADER = 64; // bytes before each array, which keep malloc's alignment

struct Block {
    int64_t size;
    bool counted;
};
static_assert(sizeof(Block) <= HEADER);

std::mutex all_lock;
std::vector<tk_working *> idle;

// Takes the mutex during a fork. If another thread held it, the child, which does not have that
// thread, would wait forever.
struct ForkSafe {
    ForkSafe() {
        pthread_atfork([] { all_lock.lock(); }, [] { all_lock.unlock(); },
                       [] { all_lock.unlock(); });
    }
} fork_safe;

thread_local tk_working *current = nullptr;

} // namespace

// Never freed: an array or a context that outlives its training still uses the handler.
struct tk_working {
    Handler handler;
    std::mutex lock;
    tusk_memory *memory = nullptr; // NULL: the training is over
    int64_t floor = 0, held = 0, blocks = 0;
    tk_working *outer = nullptr; // the enclosing training of the same thread

    bool take(int64_t bytes, bool *counted) {
        std::lock_guard guard(lock);
        *counted = memory != nullptr;
        if (memory && !tusk_memory_reserve(memory, bytes, floor))
            return false;
        held += *counted ? bytes : 0;
        blocks++;
        return true;
    }
    void give(int64_t bytes, bool counted) {
        std::lock_guard guard(lock);
        blocks--;
        if (!counted || !memory)
            return;
        held -= bytes;
        tusk_memory_unreserve(memory, bytes);
    }
};

namespace {

Block *block_of(void *array) {
    return (Block *)((char *)array - HEADER);
}

void *finish(tk_working *w, void *raw, int64_t size, bool counted) {
    if (!raw) {
        w->give(size, counted);
        return nullptr;
    }
    *(Block *)raw = {size, counted};
    return (char *)raw + HEADER;
}

void *take(void *ctx, size_t size) {
    auto *w = (tk_working *)ctx;
    bool counted;
    if (size > PTRDIFF_MAX - HEADER || !w->take((int64_t)size, &counted))
        return nullptr;
    return finish(w, std::malloc(size + HEADER), (int64_t)size, counted);
}

void *take_zeros(void *ctx, size_t n, size_t item) {
    auto *w = (tk_working *)ctx;
    size_t size;
    bool counted;
    if (__builtin_mul_overflow(n, item, &size) || size > PTRDIFF_MAX - HEADER ||
        !w->take((int64_t)size, &counted))
        return nullptr;
    return finish(w, std::calloc(1, size + HEADER), (int64_t)size, counted);
}

void give(void *ctx, void *array, size_t) {
    if (!array)
        return;
    Block *block = block_of(array);
    int64_t size = block->size;
    bool counted = block->counted;
    std::free(block);
    ((tk_working *)ctx)->give(size, counted);
}

void *take_again(void *ctx, void *array, size_t size) {
    if (!array)
        return take(ctx, size);
    int64_t before = block_of(array)->size;
    void *made = take(ctx, size);
    if (!made)
        return nullptr;
    std::memcpy(made, array, std::min((size_t)before, size));
    give(ctx, array, size);
    return made;
}

tk_working *made() {
    auto *w = new tk_working;
    w->handler = {"tuskml", 1, {w, take, take_zeros, take_again, give}};
    return w;
}

// Reuses an idle object whose arrays have all been freed, or makes a new one.
tk_working *fresh() {
    std::lock_guard guard(all_lock);
    for (size_t i = 0; i < idle.size(); i++) {
        tk_working *w = idle[i];
        std::lock_guard inside(w->lock);
        if (w->blocks)
            continue;
        idle[i] = idle.back();
        idle.pop_back();
        return w;
    }
    idle.reserve(idle.capacity() + 1);
    return made();
}

} // namespace

tk_working *tk_working_open(tusk_memory *memory, int64_t floor) {
    try {
        tk_working *w = fresh();
        std::lock_guard guard(w->lock);
        w->memory = memory;
        w->floor = floor;
        w->held = 0;
        w->outer = current;
        return current = w;
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void *tk_working_handler(tk_working *w) {
    return &w->handler;
}

void tk_working_close(tk_working *w) {
    current = w->outer;
    {
        std::lock_guard guard(w->lock);
        tusk_memory_unreserve(w->memory, w->held);
        w->memory = nullptr;
    }
    std::lock_guard guard(all_lock);
    idle.push_back(w);
}

tk_working *tk_working_here(void) {
    return current;
}

void tk_working_enter(tk_working *w) {
    current = w;
}

namespace tusk {

Counted::Counted(int64_t bytes) : working_(current), bytes_(bytes) {
    bool counted;
    if (working_ && !working_->take(bytes, &counted))
        throw std::bad_alloc();
}

Counted::~Counted() {
    if (working_)
        working_->give(bytes_, true);
}

} // namespace tusk
