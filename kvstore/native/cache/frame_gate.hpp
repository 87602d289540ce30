// Lets calls that hold frames in together, or one of them, or a checkpoint, alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tusk {

// Polled without a lock by a waiting call.
struct Cancel {
    int (*asked)(void *);
    void *argument;
    bool operator()() const { return asked && asked(argument); }
};

constexpr std::chrono::milliseconds TICK(10);

// Waits, with the lock held, until done() or cancelled; returns whether it is done.
template <class Done>
bool wait_for(std::unique_lock<std::mutex> &lock, std::condition_variable &changed,
              const Cancel &cancelled, Done done) {
    while (!done()) {
        changed.wait_for(lock, TICK);
        if (done())
            return true;
        lock.unlock();
        bool stop = cancelled();
        lock.lock();
        if (stop)
            return false;
    }
    return true;
}

class FrameGate {
public:
    // Waits while a call is alone; false if cancelled, and then the caller is outside.
    bool enter(const Cancel &cancelled) {
        std::unique_lock lock(mutex_);
        if (!wait_for(lock, changed_, cancelled, [&] { return !alone_; }))
            return false;
        inside_++;
        return true;
    }

    void leave() {
        std::scoped_lock lock(mutex_);
        inside_--;
        if (alone_)
            changed_.notify_all();
    }

    // Called inside: waits until all others have left, and lets no others in. False if cancelled,
    // and then the caller is outside.
    bool stay_alone(const Cancel &cancelled) {
        std::unique_lock lock(mutex_);
        inside_--;
        changed_.notify_all();
        if (!wait_for(lock, changed_, cancelled, [&] { return !alone_; }))
            return false;
        alone_ = true;
        bool empty = wait_for(lock, changed_, cancelled, [&] { return !inside_; });
        if (empty)
            inside_ = 1;
        else
            open(lock);
        return empty;
    }

    // Callers inside stay inside.
    void open() {
        std::unique_lock lock(mutex_);
        open(lock);
    }

    // Closes the gate without waiting if no one is inside or alone; returns how many are.
    int close_if_empty() {
        std::scoped_lock lock(mutex_);
        int others = inside_ + (alone_ && !inside_);
        alone_ = alone_ || !others;
        return others;
    }

private:
    void open(std::unique_lock<std::mutex> &) {
        alone_ = false;
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    int inside_ = 0;
    bool alone_ = false;
};

} // namespace tusk
