// Command engine is a C shared library: Go SDKs behind four functions.
//
// A caller passes the name of an operation and a JSON request and gets a JSON answer. Everything is
// copied on the way in and on the way out, so no memory is shared between the two languages.
package main

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
*/
import "C"

import (
	"time"
	"unsafe"

	"penstock.dev/engine/internal/call"
	"penstock.dev/engine/internal/parent"
)

var running call.Running

// eng_call runs one operation and returns its call.Status. The answer is malloc'ed: the caller gives
// it back to eng_free. id is the caller's and names the call for eng_cancel; a timeout of 0 is none.
//
//export eng_call
func eng_call(id C.uint64_t, op *C.char, in unsafe.Pointer, n C.size_t, timeoutMs C.int64_t,
	out *unsafe.Pointer, outn *C.size_t) C.int32_t {
	settle()
	ctx, done := running.Begin(uint64(id), time.Duration(timeoutMs)*time.Millisecond)
	defer done()
	status, answer := operations.Call(ctx, C.GoString(op), C.GoBytes(in, C.int(n)))
	*out, *outn = C.CBytes(answer), C.size_t(len(answer))
	return C.int32_t(status)
}

// eng_cancel ends the context of a running call; an unknown id is ignored.
//
//export eng_cancel
func eng_cancel(id C.uint64_t) {
	running.Cancel(uint64(id))
}

// eng_connect tells operations that ask their parent where its replies come from and where questions
// go to. It is called once, before such an operation.
//
//export eng_connect
func eng_connect(in, out C.int) {
	parent.Connect(int(in), int(out))
}

// eng_free releases an answer.
//
//export eng_free
func eng_free(answer unsafe.Pointer) {
	C.free(answer)
}

func main() {}
