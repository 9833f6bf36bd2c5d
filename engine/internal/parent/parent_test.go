package parent

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// asked is a frame that the session wrote.
type asked struct {
	kind byte
	id   uint32
	data []byte
}

func listen(t *testing.T, out io.Reader) asked {
	t.Helper()
	var header [9]byte
	if _, err := io.ReadFull(out, header[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.LittleEndian.Uint64(header[1:]))
	if _, err := io.ReadFull(out, body); err != nil {
		t.Fatal(err)
	}
	return asked{body[0], binary.LittleEndian.Uint32(body[1:]), body[5:]}
}

func reply(in io.Writer, kind byte, id uint32, data string) {
	frame := append([]byte{kind}, binary.LittleEndian.AppendUint32(nil, id)...)
	frame = binary.LittleEndian.AppendUint64(frame, uint64(len(data)))
	_, _ = in.Write(append(frame, data...))
}

func open(t *testing.T) (*Session, context.Context, io.Writer, io.Reader) {
	t.Helper()
	in, replies := io.Pipe()
	questions, out := io.Pipe()
	s, ctx := begin(context.Background(), in, out)
	return s, ctx, replies, questions
}

func TestRequestIsAnswered(t *testing.T) {
	s, ctx, replies, questions := open(t)
	go func() {
		question := listen(t, questions)
		size := binary.LittleEndian.Uint32(question.data)
		var head Head
		if err := json.Unmarshal(question.data[4:4+size], &head); err != nil {
			t.Error(err)
		}
		if head.Identity != "release" || head.Method != "POST" || head.Target != "/a?b=c" {
			t.Errorf("asked %+v", head)
		}
		if !bytes.Equal(question.data[4+size:], []byte("sent")) {
			t.Errorf("sent %q", question.data[4+size:])
		}
		reply(replies, replyHead, question.id, `{"status":201,"headers":{"A":["b"]}}`)
		reply(replies, replyChunk, question.id, "one")
		reply(replies, replyChunk, question.id, "two")
		reply(replies, replyEnd, question.id, "")
		if listen(t, questions).kind != askDone {
			t.Error("the session did not say that it is done")
		}
		reply(replies, replyDone, 0, "")
	}()
	client := http.Client{Transport: s.As(ctx, "release")}
	response, err := client.Post("http://cluster/a?b=c", "text/plain", strings.NewReader("sent"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "onetwo" || response.StatusCode != 201 || response.Header.Get("A") != "b" {
		t.Errorf("got %d %q %v", response.StatusCode, body, err)
	}
	s.End()
	if _, err := client.Get("http://cluster/"); err == nil {
		t.Error("asked after the end")
	}
}

func TestRequestsBeyondTheBoundWaitForTheirTurn(t *testing.T) {
	s, ctx, replies, questions := open(t)
	most := make(chan int)
	go func() {
		var waiting []uint32
		for range 2 * maxOpen {
			if len(waiting) == maxOpen {
				// All that may be open are. The next question can only come after an answer.
				reply(replies, replyHead, waiting[0], `{"status":200}`)
				reply(replies, replyEnd, waiting[0], "")
				waiting = waiting[1:]
			}
			waiting = append(waiting, listen(t, questions).id)
			s.mu.Lock()
			if len(s.open) > maxOpen {
				t.Errorf("%d at once", len(s.open))
			}
			s.mu.Unlock()
		}
		for _, id := range waiting {
			reply(replies, replyHead, id, `{"status":200}`)
			reply(replies, replyEnd, id, "")
		}
		for listen(t, questions).kind != askDone {
		}
		reply(replies, replyDone, 0, "")
		close(most)
	}()
	client := http.Client{Transport: s.As(ctx, "release")}
	var asking sync.WaitGroup
	for range 2 * maxOpen {
		asking.Add(1)
		go func() {
			defer asking.Done()
			response, err := client.Get("http://cluster/")
			if err != nil {
				t.Error(err)
				return
			}
			// To its end, or the rest would be dropped by a question of its own.
			_, _ = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}()
	}
	asking.Wait()
	s.End()
	<-most
}

func TestCancelEndsTheContextAndRequestsInFlight(t *testing.T) {
	s, ctx, replies, questions := open(t)
	go func() {
		listen(t, questions)
		reply(replies, replyCancel, 0, "")
		for listen(t, questions).kind != askDone {
		}
		reply(replies, replyDone, 0, "")
	}()
	client := http.Client{Transport: s.As(ctx, "release")}
	if _, err := client.Get("http://cluster/"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ctx.Done()
	s.End()
}

func TestParentThatIsGoneFailsRequests(t *testing.T) {
	in, replies := io.Pipe()
	s, ctx := begin(context.Background(), in, io.Discard)
	go replies.Close()
	client := http.Client{Transport: s.As(ctx, "release")}
	if _, err := client.Get("http://cluster/"); err == nil {
		t.Error("no failure")
	}
	<-ctx.Done()
}
