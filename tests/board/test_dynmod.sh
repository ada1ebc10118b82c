#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Loads, runs and unloads a test module on a device: 19 checks in 6 milestones, one line each, then `N passed, N failed`.
#
#   test_dynmod.sh [--device DEV] [--module FILE] [--target HOST] [--deploy COMMAND]
#
#   --device DEV      emu: or emu:PATH, a shared emulator, which is started if it does not run; or a board's device.
#                     Default: emu, an emulator of its own, which ends with the script.
#   --module FILE     the test module; default: dynmod.out of the build folder (also $C7X_MODULES/dynmod.out)
#   --target HOST     run c7x_compute, and read state and log, on HOST by ssh; the module is copied there
#   --deploy COMMAND  run first, on this machine: installs the firmware, starts the DSP
#
# $C7X_COMPUTE is the command-line program; default: c7x_compute, else that of the build folder. Exit code: 0 all passed, 1 not, 2 wrong usage.
set -u

here=$(dirname "$0")
build=$here/../../build
program=${C7X_COMPUTE:-c7x_compute}
module=${C7X_MODULES:-$build/tests/modules}/dynmod.out
device=emu
target=
deploy=
passed=0
failed=0
cycles=5

usage() {
    echo "test_dynmod.sh: $1" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --device | --module | --target | --deploy) [ $# -ge 2 ] || usage "$1 needs a value" ;;
    *) usage "unknown option: $1" ;;
    esac
    case $1 in
    --device) device=$2 ;;
    --module) module=$2 ;;
    --target) target=$2 ;;
    --deploy) deploy=$2 ;;
    esac
    shift 2
done
if [ -z "$target" ] && ! command -v "$program" >/dev/null; then
    program=$build/bin/c7x_compute
fi
[ -f "$module" ] || usage "no module at $module"

# ---- Where the commands run, and on what ----

work=$(mktemp -d) || exit 1
own_emulator=
on_target=/tmp/c7x_dynmod.$$.out
clean_up() {
    [ -z "$own_emulator" ] || compute emulator stop >/dev/null 2>&1
    [ -z "$target" ] || ssh "$target" rm -f "$on_target"
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

if [ "$device" = emu ]; then
    [ -z "$target" ] || usage "--target needs --device"
    device=emu:$work/socket
fi
case $device in
emu:*) kind=emulator ;;
*) kind=board ;;
esac

# A command on the target; its words hold no spaces or quotes.
on() {
    if [ -n "$target" ]; then
        ssh "$target" "$*"
    else
        "$@"
    fi
}

compute() {
    verb=$1
    shift
    on "$program" "$verb" --device "$device" "$@"
}

# ---- What a board has in sysfs and the kernel's log; not run on hardware ----

# The remoteproc of the DSP, which the device tree calls 7e000000.dsp.
board_processor() {
    on grep -l 7e000000.dsp /sys/class/remoteproc/remoteproc*/name 2>/dev/null | head -n 1 | sed 's,/name$,,'
}

board_state() {
    on cat "$(board_processor)/state" 2>/dev/null
}

board_announced() {
    on dmesg | grep 'rpmsg_chrdev' | grep -q 'creating channel'
}

board_panicked() {
    on dmesg | grep -q '7e000000.dsp.*crash'
}

board_log() {
    on cat "/sys/kernel/debug/remoteproc/$(basename "$(board_processor)")/trace0"
}

# ---- The same of an emulator ----

emulator_state() {
    compute emulator status | sed -n 's/^Emulator: //p'
}

emulator_announced() {
    emulator_log | grep -q 'C7x emulator serves'
}

emulator_panicked() {
    emulator_log | grep -iq panic
}

emulator_log() {
    compute trace --once 2>/dev/null
}

# ---- Checks ----

# check NAME COMMAND...: whether the command succeeds.
check() {
    name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        passed=$((passed + 1))
        echo "PASS $name"
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        sed 's/^/     /' "$work/output"
    fi
}

milestone() {
    echo "-- M$1: $2"
}

is_running() {
    [ "$("${kind}_state")" = running ]
}

not() {
    ! "$@"
}

load() {
    compute load "$module" >"$work/load" 2>&1
    code=$?
    cat "$work/load"
    handle=$(sed -n 's/.*handle=\([0-9][0-9]*\).*/\1/p' "$work/load")
    return $code
}

# Succeeds, and says that it is complete.
infer() {
    compute infer "${handle:-0}" --module "$module" >"$work/infer" 2>&1
    code=$?
    cat "$work/infer"
    [ $code -eq 0 ] && grep -q 'Inference complete' "$work/infer"
}

unload() {
    compute unload "${handle:-0}"
}

cycle() {
    load && infer && unload
}

# The log has one line more with this text than when note_log noted it.
note_log() {
    "${kind}_log" >"$work/log.before"
}

count_lines() {
    grep -cF -e "$1" "$2"
}

log_gained() {
    "${kind}_log" >"$work/log"
    [ "$(count_lines "$1" "$work/log")" -gt "$(count_lines "$1" "$work/log.before")" ]
}

# ---- The run ----

if [ -n "$deploy" ]; then
    sh -c "$deploy" || usage "the command of --deploy failed"
fi
if [ -n "$target" ]; then
    ssh "$target" "cat >$on_target" <"$module" || usage "cannot copy the module to $target"
    module=$on_target
fi
if [ $kind = emulator ] && [ "$(emulator_state)" != running ]; then
    compute emulator start >/dev/null || exit 1
    own_emulator=yes
fi
handle=

milestone 1 "the firmware runs"
check "state is running" is_running
check "the service has been announced" ${kind}_announced
check "no panic" not ${kind}_panicked

milestone 2 "the service answers"
check "ping" compute ping
check "status" compute status

milestone 3 "a module is loaded"
note_log
check "load" load
check "the handle is not zero" [ "${handle:-0}" -ne 0 ]
check "the log says that it was loaded" log_gained "[DLOAD] Loaded module"

milestone 4 "it runs"
note_log
check "infer completes" infer
for message in "entry called" "memcpy test pass" "compute test 45 expected 45" "all passed"; do
    check "the module says: $message" log_gained "$message"
done

milestone 5 "it is unloaded"
check "unload" unload

milestone 6 "load, infer, unload, again and again"
i=1
while [ $i -le $cycles ]; do
    check "cycle $i of $cycles" cycle
    i=$((i + 1))
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
