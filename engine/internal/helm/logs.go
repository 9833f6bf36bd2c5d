package helm

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logLines is how many lines an answer has of what Helm logged, and logLength how long one may be.
const (
	logLines  = 10
	logLength = 1000
)

// journalist keeps the last lines that Helm logs (slog.Handler).
type journalist struct {
	redact     func(string) string
	attributes []slog.Attr
	kept       *lines
}

type lines struct {
	sync.Mutex
	texts []string
}

// Enabled implements slog.Handler.
func (*journalist) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (j *journalist) Handle(_ context.Context, record slog.Record) error {
	var text strings.Builder
	text.WriteString(record.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&text, " %s=%v", a.Key, a.Value.Resolve())
		return true
	}
	for _, each := range j.attributes {
		add(each)
	}
	record.Attrs(add)
	line := j.redact(text.String())
	if len(line) > logLength {
		line = strings.ToValidUTF8(line[:logLength], "") + "…"
	}
	j.kept.Lock()
	defer j.kept.Unlock()
	j.kept.texts = append(j.kept.texts, record.Time.UTC().Format(time.RFC3339Nano)+": "+line)
	if excess := len(j.kept.texts) - logLines; excess > 0 {
		j.kept.texts = append([]string{}, j.kept.texts[excess:]...)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (j *journalist) WithAttrs(attributes []slog.Attr) slog.Handler {
	more := *j
	more.attributes = append(append([]slog.Attr{}, j.attributes...), attributes...)
	return &more
}

// WithGroup implements slog.Handler; Helm has no groups.
func (j *journalist) WithGroup(string) slog.Handler { return j }

func (j *journalist) last() []string {
	j.kept.Lock()
	defer j.kept.Unlock()
	return append([]string{}, j.kept.texts...)
}
