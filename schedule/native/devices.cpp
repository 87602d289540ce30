// Turns at a device: one training at a time has it, and others wait in the order of their
// requests.
#include "training_state.hpp"

namespace tusk {

bool Training::ask_device(int device) {
    if (!table_ || device < 1 || device > TUSK_DEVICES)
        return false;
    if (!slot_.load())
        enter(wanted_.load(), tusk_table_now());
    tusk_slot *mine = slot_.load();
    if (!mine || !is_mine(*mine))
        return false;
    TUSK_STORE(mine->device_at, tusk_table_now());
    TUSK_STORE(mine->device, device);
    return true;
}

// Whether the training in slot `place`, from 1 on, still waits for or has the device.
bool Training::is_held(int64_t place, int32_t device) const {
    if (place < 1 || place > TUSK_SLOTS)
        return false;
    tusk_slot &one = table_->slots[place - 1];
    return TUSK_LOAD(one.pid) > 0 && TUSK_LOAD(one.ready) && TUSK_LOAD(one.device) == device;
}

bool Training::take_device() {
    tusk_slot *mine = slot_.load();
    const int32_t device = mine && is_mine(*mine) ? TUSK_LOAD(mine->device) : 0;
    if (device < 1 || device > TUSK_DEVICES)
        return true; // its own slot was removed, so no other training knows its request
    const int64_t place = mine - table_->slots + 1;
    int64_t has = TUSK_LOAD(table_->devices[device - 1]);
    if (has == place)
        return true;
    tusk_remove_gone(table_);
    const double asked = TUSK_LOAD(mine->device_at);
    for (tusk_slot &one : table_->slots) {
        const double at = TUSK_LOAD(one.device_at);
        const bool waits = TUSK_LOAD(one.pid) > 0 && TUSK_LOAD(one.ready) && &one != mine &&
                           TUSK_LOAD(one.device) == device;
        if (waits && (at < asked || (at == asked && &one < mine)))
            return false;
    }
    if (has && !is_held(has, device))
        __atomic_compare_exchange_n(table_->devices + device - 1, &has, 0, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    has = 0;
    return __atomic_compare_exchange_n(table_->devices + device - 1, &has, place, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool Training::device_is_wanted() {
    tusk_slot *mine = slot_.load();
    const int32_t device = mine ? TUSK_LOAD(mine->device) : 0;
    for (tusk_slot &one : table_->slots)
        if (device && &one != mine && TUSK_LOAD(one.pid) > 0 && TUSK_LOAD(one.ready) &&
            TUSK_LOAD(one.device) == device)
            return true;
    return false;
}

void Training::leave_device() {
    tusk_slot *mine = slot_.load();
    if (mine && is_mine(*mine))
        tusk_leave_device(table_, mine);
}

} // namespace tusk
