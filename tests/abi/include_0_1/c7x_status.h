/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes of c7x-compute: one type and one namespace for the library, the firmware and the wire.
 *
 *   0            done
 *   -1 .. -14    the codes of wire version 3.0
 *   -15 .. -63   the codes that wire version 3.1 adds; a 3.0 session never gets one
 *   -101 ..      what only the host can know; never on the wire
 *
 * The table below is the only place where a code is defined: the enum, c7x_status_name(), c7x_strerror(),
 * `c7x_compute help errors` and the manual page follow it.
 */
#ifndef C7X_STATUS_H
#define C7X_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, code, text, retry, next step); retry is 1 if the same call may succeed later unchanged. */
#define C7X_STATUS_TABLE(X)                                                                        \
    X(OK, 0, "Success", 0, "nothing to do")                                                        \
    X(GENERIC, -1, "Generic error", 0, "read the firmware log: c7x_compute trace")                 \
    X(INVALID, -2, "Invalid parameter", 0, "correct the argument that the message names")          \
    X(NOMEM, -3, "Out of memory", 1, "unload modules or use a smaller one")                        \
    X(BUSY, -4, "Service busy", 1, "try again when a request has finished")                        \
    X(TIMEOUT, -5, "Operation timeout", 1, "raise the deadline or look at c7x_compute trace")      \
    X(ADDR, -6, "Invalid address", 0, "use addresses of buffers that this client owns")            \
    X(SIZE, -7, "Invalid size", 0, "correct the size; reserve a larger buffer")                    \
    X(OP, -8, "Unknown operation", 0, "check the message type and the versions of both sides")     \
    X(LOAD, -9, "Dynamic load failed", 0, "build the module again with c7x-compile")               \
    X(SYMBOL, -10, "Symbol lookup failed", 0, "build the module again with c7x-compile")           \
    X(CALL, -11, "Function call failed", 0, "read the module's output and c7x_compute trace")      \
    X(HANDLE, -12, "Invalid handle/id", 0, "load the module again and use the new handle")         \
    X(WEIGHTS, -13, "Weights parsing failed", 0, "build the module or weights file again")         \
    X(TENSOR, -14, "Tensor construction failed", 0, "correct the tensor that the message names")   \
    X(CANCELLED, -15, "Request cancelled", 1, "send the request again")                            \
    X(FAULT, -16, "Module fault", 0, "read the fault report: c7x_compute trace")                   \
    X(FAULTED, -17, "Module quarantined after a fault", 0, "unload the module and load it again")  \
    X(UNSUPPORTED, -18, "Not supported by this device", 0, "use newer firmware")                   \
    X(NO_DEVICE, -101, "No device", 0, "start one: c7x_compute emulator start")                    \
    X(PERMISSION, -102, "Permission denied", 0, "check owner and mode of what the message names")  \
    X(FILE, -103, "File error", 0, "check the file that the message names")                        \
    X(VERSION, -104, "Version mismatch", 0, "install firmware and library of one major version")   \
    X(RESET, -105, "Device reset", 1, "open the device again and reload the modules")              \
    X(LOCKED, -106, "Buffer locked", 0, "reserve before the first pointer is taken")               \
    X(PROTOCOL, -107, "Protocol error", 0, "check the versions of firmware and library")           \
    X(HOST_NOMEM, -108, "Out of host memory", 1, "free memory on the host")

enum c7x_status {
#define C7X_STATUS_ENUM(name, code, text, retry, next) C7X_##name = (code),
    C7X_STATUS_TABLE(C7X_STATUS_ENUM)
#undef C7X_STATUS_ENUM
};

/* The most negative status that may stand in a frame. */
#define C7X_STATUS_WIRE_MIN (-63)
/* The most negative status that a 3.0 session may be sent. */
#define C7X_STATUS_WIRE_3_0_MIN (-14)

#if defined(__GNUC__)
#define C7X_NODISCARD __attribute__((warn_unused_result))
#else
#define C7X_NODISCARD
#endif

#ifdef __cplusplus
}
#endif

#endif
