// Threads for passes over rows, and the checks that end a pass early.
#pragma once

#include <cstdint>

#include "api.h"

namespace tusk {

// Turns exceptions into a code, since none may cross into C. The only one expected is bad_alloc.
template <class Body> int code_of(Body body) noexcept {
    try {
        return body();
    } catch (...) {
        return TK_NO_MEMORY;
    }
}

// A reference to a function object that outlives the call it is passed to. It allocates nothing
// and compiles faster than std::function.
template <class Signature> class Ref;
template <class Result, class... Args> class Ref<Result(Args...)> {
public:
    template <class F>
    Ref(const F &f)
        : of_(&f), call_([](const void *of, Args... args) -> Result {
              return (*static_cast<const F *>(of))(args...);
          }) {}
    Result operator()(Args... args) const { return call_(of_, args...); }

private:
    const void *of_;
    Result (*call_)(const void *, Args...);
};

// Calls body(task) for task = 0 .. n - 1 on up to `threads` threads, including the caller's, and
// returns when all are done. Throws std::bad_alloc if a task threw. Several callers may run at
// once: they share the workers. Idle workers sleep.
void parallel_for(int64_t n, int threads, Ref<void(int64_t)> body);

int64_t cancel_count();
inline bool cancelled(int64_t mark) {
    return mark >= 0 && cancel_count() != mark;
}

// Whether the deadline, in seconds of the monotonic clock, has passed; 0: there is none.
bool past(double deadline);

// Why a pass must end: TK_CANCELLED or TK_OUT_OF_TIME. TK_OK while it may go on.
inline int ending(int64_t mark, double deadline) {
    return cancelled(mark) ? TK_CANCELLED : past(deadline) ? TK_OUT_OF_TIME : TK_OK;
}

} // namespace tusk
