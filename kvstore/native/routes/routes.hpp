// Declarations shared by the parts of ks_routes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../api.h"
#include "../cache/frame_gate.hpp"

namespace tusk {

// Runs tasks one after the other on its own thread. After a failure the others are dropped.
class IoThread {
public:
    IoThread();
    ~IoThread(); // waits for the current task
    IoThread(const IoThread &) = delete;
    IoThread &operator=(const IoThread &) = delete;

    using Task = std::function<bool(char *error)>; // false: it failed, error has a sentence
    void add(Task task);
    // Wakes waiting callers in the middle of a task.
    void tell();
    // Waits until done() holds, which tasks make true; false: a task failed, or it was cancelled.
    bool wait(const std::function<bool()> &done, const Cancel &cancel, char *error,
              bool *was_cancelled);
    // Waits until there is no task.
    bool idle(char *error);

private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Task> tasks_;
    bool busy_ = false, ends_ = false, failed_ = false;
    char error_[KS_ERROR] = "";
    std::thread thread_;
};

// Reads or writes all bytes; false with a sentence.
bool read_at(int file, void *out, std::size_t bytes, int64_t at, char *error);
bool write_at(int file, const void *from, std::size_t bytes, int64_t at, char *error);

} // namespace tusk
