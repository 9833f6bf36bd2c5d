// Package parent sends HTTP requests to the process that started this one, which answers them with
// its own connections and credentials. This process has neither.
//
// Questions and replies are frames on the pipes that requests and answers of the worker use. They
// flow only while an operation runs, between Begin and End: End says so and waits until the parent
// has said the same, so no reply is left that could be taken for the next request.
package parent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

// What a worker says, in toolkit/native/questions.py as well.
const (
	statusAsking = 2 // of frames.Status: the answer is not yet there

	askSend = 1 // a Head and the body of a request
	askDrop = 2 // nobody reads the rest of the response
	askDone = 3 // there are no more questions

	replyHead   = 1 // a Head: the response has begun
	replyChunk  = 2 // bytes of its body
	replyEnd    = 3 // its body is complete
	replyBroken = 4 // there is none, or no more of it: a text for people
	replyCancel = 5 // the operation is to end early
	replyDone   = 6 // there are no more replies
)

// maxOpen is how many requests are unanswered at a time; others wait for their turn. The parent ends
// a worker that has more than 64, and Helm asks for all objects of a kind at once.
const maxOpen = 32

// maxReply bounds one frame of the parent, which cuts bodies into smaller ones.
const maxReply = 256 << 20

var errEnded = errors.New("the operation has ended")

// pipes are those of the process; they are set before the first call.
var pipes struct{ in, out *os.File }

// Connect tells where requests come from and answers go to. It is called once.
func Connect(in, out int) {
	pipes.in, pipes.out = os.NewFile(uintptr(in), "requests"), os.NewFile(uintptr(out), "answers")
}

// Head is what a request or a response begins with.
type Head struct {
	Identity string      `json:"identity,omitempty"`
	Method   string      `json:"method,omitempty"`
	Target   string      `json:"target,omitempty"`
	Status   int         `json:"status,omitempty"`
	Headers  http.Header `json:"headers,omitempty"`
}

// Session is the questions of one operation.
type Session struct {
	in     io.Reader
	out    io.Writer
	cancel context.CancelFunc

	writing sync.Mutex

	mu    sync.Mutex
	ended error
	next  uint32
	open  map[uint32]*exchange
	done  chan struct{}

	slots chan struct{} // holds one for each that is open
}

// Begin opens the questions of an operation. The context ends when the parent wants it to.
func Begin(ctx context.Context) (*Session, context.Context, error) {
	if pipes.in == nil {
		return nil, nil, errors.New("this process has no parent to ask")
	}
	s, ctx := begin(ctx, pipes.in, pipes.out)
	return s, ctx, nil
}

func begin(ctx context.Context, in io.Reader, out io.Writer) (*Session, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	// Nothing is read ahead: what follows replyDone is the next request.
	s := &Session{
		in: in, out: out, cancel: cancel, open: map[uint32]*exchange{}, done: make(chan struct{}),
		slots: make(chan struct{}, maxOpen),
	}
	go s.listen()
	return s, ctx
}

// End lets nobody ask any more, and waits for the last reply.
func (s *Session) End() {
	s.fail(errEnded)
	if s.say(askDone, 0, nil, nil) == nil {
		<-s.done
	}
	s.cancel()
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
	}
	for id, e := range s.open {
		e.finish(err)
		s.forget(id)
	}
}

// forget gives the slot of an open exchange back; s.mu is held.
func (s *Session) forget(id uint32) {
	delete(s.open, id)
	<-s.slots
}

func (s *Session) say(kind byte, id uint32, head, body []byte) error {
	size := 5 + len(body)
	if head != nil {
		size += 4 + len(head)
	}
	frame := make([]byte, 0, 18+len(head))
	frame = append(frame, statusAsking)
	frame = binary.LittleEndian.AppendUint64(frame, uint64(size))
	frame = append(frame, kind)
	frame = binary.LittleEndian.AppendUint32(frame, id)
	if head != nil {
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(head)))
		frame = append(frame, head...)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.out.Write(frame); err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	_, err := s.out.Write(body)
	return err
}

func (s *Session) listen() {
	defer close(s.done)
	for {
		kind, id, data, err := s.read()
		if err != nil {
			s.fail(fmt.Errorf("the parent is gone: %w", err))
			s.cancel()
			return
		}
		switch kind {
		case replyDone:
			return
		case replyCancel:
			s.cancel()
		default:
			s.deliver(kind, id, data)
		}
	}
}

func (s *Session) read() (kind byte, id uint32, data []byte, err error) {
	var header [13]byte
	if _, err = io.ReadFull(s.in, header[:]); err != nil {
		return
	}
	size := binary.LittleEndian.Uint64(header[5:])
	if size > maxReply {
		return 0, 0, nil, fmt.Errorf("a reply of %d bytes", size)
	}
	data = make([]byte, size)
	_, err = io.ReadFull(s.in, data)
	return header[0], binary.LittleEndian.Uint32(header[1:]), data, err
}

func (s *Session) deliver(kind byte, id uint32, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.open[id]
	if e == nil {
		return // it was dropped
	}
	switch kind {
	case replyHead:
		var head Head
		if err := json.Unmarshal(data, &head); err != nil {
			e.finish(err)
			return
		}
		e.begin(&head)
	case replyChunk:
		e.add(data)
	case replyEnd:
		e.finish(io.EOF)
		s.forget(id)
	case replyBroken:
		e.finish(errors.New(string(data)))
		s.forget(id)
	}
}

// As returns the client of an identity that the parent knows. All its requests end with ctx.
func (s *Session) As(ctx context.Context, identity string) http.RoundTripper {
	return &transport{session: s, ctx: ctx, identity: identity}
}

type transport struct {
	session  *Session
	ctx      context.Context
	identity string
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := readAll(request.Body)
	if err != nil {
		return nil, err
	}
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	head, err := json.Marshal(Head{
		Identity: t.identity, Method: request.Method,
		Target: request.URL.RequestURI(), Headers: request.Header,
	})
	if err != nil {
		return nil, err
	}
	e, err := t.session.ask(t.ctx, request.Context())
	if err != nil {
		return nil, err
	}
	e.ends(t.ctx)
	e.ends(request.Context())
	if err := t.session.say(askSend, e.id, head, body); err != nil {
		e.finish(err)
	}
	answer, err := e.wait()
	if err != nil {
		e.Close()
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(answer.Status), StatusCode: answer.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Headers, Body: e, ContentLength: -1, Request: request,
	}, nil
}

func readAll(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	defer body.Close()
	return io.ReadAll(body)
}

func (s *Session) ask(operation, request context.Context) (*exchange, error) {
	select {
	case s.slots <- struct{}{}:
	case <-operation.Done():
		return nil, operation.Err()
	case <-request.Done():
		return nil, request.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		<-s.slots
		return nil, s.ended
	}
	s.next++
	e := &exchange{session: s, id: s.next}
	e.changed.L = &e.mu
	s.open[e.id] = e
	return e, nil
}

// exchange is one request and its response, whose body it is. It buffers: one slow reader must not
// keep replies from others.
type exchange struct {
	session *Session
	id      uint32
	stops   []func() bool

	mu      sync.Mutex
	changed sync.Cond
	head    *Head
	chunks  [][]byte
	end     error
}

func (e *exchange) ends(ctx context.Context) {
	e.stops = append(e.stops, context.AfterFunc(ctx, func() { e.finish(ctx.Err()) }))
}

func (e *exchange) begin(head *Head) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.head = head
	e.changed.Broadcast()
}

func (e *exchange) add(data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end == nil {
		e.chunks = append(e.chunks, data)
	}
	e.changed.Broadcast()
}

func (e *exchange) finish(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end == nil {
		e.end = err
	}
	e.changed.Broadcast()
}

func (e *exchange) wait() (*Head, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.head == nil && e.end == nil {
		e.changed.Wait()
	}
	if e.head == nil {
		return nil, e.end
	}
	return e.head, nil
}

// Read returns what has come of the body (io.Reader).
func (e *exchange) Read(into []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.chunks) == 0 && e.end == nil {
		e.changed.Wait()
	}
	if len(e.chunks) == 0 {
		return 0, e.end
	}
	n := copy(into, e.chunks[0])
	if e.chunks[0] = e.chunks[0][n:]; len(e.chunks[0]) == 0 {
		e.chunks = e.chunks[1:]
	}
	return n, nil
}

// Close drops what is still to come (io.Closer).
func (e *exchange) Close() error {
	for _, stop := range e.stops {
		stop()
	}
	e.finish(errEnded)
	e.session.mu.Lock()
	_, open := e.session.open[e.id]
	delete(e.session.open, e.id)
	e.session.mu.Unlock()
	if !open {
		return nil
	}
	err := e.session.say(askDrop, e.id, nil, nil)
	<-e.session.slots // only now, or the parent hears of the next one first
	return err
}
