#include "progress.hpp"

#include <atomic>

#include "../../../../schedule/native/progress.h"
#include "api.h"

namespace tusk {
namespace {

// Functions set by Python; without them nothing is reported.
std::atomic<const tusk_progress *> told{nullptr};

const tusk_progress *functions() {
    return told.load(std::memory_order_acquire);
}

} // namespace

Progress::Progress(int64_t units, int64_t groups)
    : work_(functions() ? functions()->begin(units, groups) : nullptr) {}

Progress::~Progress() {
    if (work_)
        functions()->end(work_);
}

void Progress::done(int64_t units, int64_t rows) const {
    if (work_)
        functions()->done(work_, units, rows);
}

} // namespace tusk

void tk_use_progress(const tusk_progress *functions) {
    tusk::told.store(functions, std::memory_order_release);
}
