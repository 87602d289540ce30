// The thread that reads ahead and writes behind.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "../leveldb/store.hpp"
#include "routes.hpp"

namespace tusk {

IoThread::IoThread() {
    SignalsBlocked blocked; // the thread inherits this
    thread_ = std::thread([this] { run(); });
}

IoThread::~IoThread() {
    {
        std::scoped_lock held(mutex_);
        ends_ = true;
        tasks_.clear();
    }
    changed_.notify_all();
    thread_.join();
}

void IoThread::add(Task task) {
    {
        std::scoped_lock held(mutex_);
        tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
}

void IoThread::tell() {
    std::scoped_lock held(mutex_);
    changed_.notify_all();
}

void IoThread::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
        if (ends_)
            return;
        Task task = std::move(tasks_.front());
        tasks_.pop_front();
        busy_ = true;
        lock.unlock();
        char error[KS_ERROR] = "";
        bool done = task(error);
        lock.lock();
        busy_ = false;
        if (!done && !failed_) {
            failed_ = true;
            std::memcpy(error_, error, sizeof error_);
        }
        if (failed_)
            tasks_.clear();
        changed_.notify_all();
    }
}

bool IoThread::wait(const std::function<bool()> &done, const Cancel &cancel, char *error,
                    bool *was_cancelled) {
    std::unique_lock lock(mutex_);
    while (!failed_ && !done()) {
        changed_.wait_for(lock, std::chrono::milliseconds(10));
        if (done() || failed_ || !cancel.asked)
            continue;
        lock.unlock();
        *was_cancelled = cancel();
        lock.lock();
        if (*was_cancelled)
            return false;
    }
    if (failed_)
        std::memcpy(error, error_, sizeof error_);
    return !failed_;
}

bool IoThread::idle(char *error) {
    bool cancelled = false;
    return wait([&] { return tasks_.empty() && !busy_; }, {}, error, &cancelled);
}

static bool failed(const char *doing, char *error) {
    std::snprintf(error, KS_ERROR, "%s the weights of a training failed: %s", doing,
                  std::strerror(errno));
    return false;
}

bool read_at(int file, void *out, std::size_t bytes, int64_t at, char *error) {
    auto *to = static_cast<char *>(out);
    while (bytes) {
        ssize_t n = pread(file, to, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : EIO; // the file ends too early
            return failed("reading", error);
        }
        to += n;
        at += n;
        bytes -= static_cast<std::size_t>(n);
    }
    return true;
}

bool write_at(int file, const void *from, std::size_t bytes, int64_t at, char *error) {
    auto *data = static_cast<const char *>(from);
    while (bytes) {
        ssize_t n = pwrite(file, data, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : ENOSPC;
            return failed("writing", error);
        }
        data += n;
        at += n;
        bytes -= static_cast<std::size_t>(n);
    }
    return true;
}

} // namespace tusk
