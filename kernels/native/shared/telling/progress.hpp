// Reports the progress of a long computation, for the list of the host's running trainings.
#pragma once

#include <cstdint>

namespace tusk {

class Progress {
public:
    // The calling thread begins `units` units of work on `groups` groups of its training.
    Progress(int64_t units, int64_t groups);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // Adds finished units, from any thread, and the rows read for them.
    void done(int64_t units, int64_t rows) const;

private:
    void *work_;
};

} // namespace tusk
