package images

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

var errManyLines = errors.New("the marked value is not on one line, or is written in a way that cannot be changed in place: write it on the line of its marker")

// source is a text in which the parser's positions are found again.
type source struct {
	text  []byte
	lines []int
}

// lines returns where each line begins, as the parser counts them: it also breaks at the line breaks
// of YAML 1.1.
func lines(text []byte) []int {
	starts := []int{0}
	for i := 0; i < len(text); {
		size := 1
		switch {
		case text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
			size = 2
		case text[i] == '\n' || text[i] == '\r':
		case bytes.HasPrefix(text[i:], []byte("\u0085")):
			size = 2
		case bytes.HasPrefix(text[i:], []byte("\u2028")), bytes.HasPrefix(text[i:], []byte("\u2029")):
			size = 3
		default:
			i++
			continue
		}
		i += size
		starts = append(starts, i)
	}
	return starts
}

// scalar returns the bytes of a scalar on one line, with its quotes and without anchor and tag. What
// is found there must be the value that the parser read.
func (s source) scalar(node *yaml.Node) (span, error) {
	start, rest, ok := s.from(node)
	if !ok {
		return span{}, errManyLines
	}
	for len(rest) > 0 && (rest[0] == '&' || rest[0] == '!') {
		end := bytes.IndexAny(rest, " \t")
		if end < 0 {
			return span{}, errManyLines
		}
		for end < len(rest) && (rest[end] == ' ' || rest[end] == '\t') {
			end++
		}
		start, rest = start+end, rest[end:]
	}
	length := len(node.Value)
	switch {
	case node.Style&yaml.SingleQuotedStyle != 0:
		length = quoted(rest, '\'', func(inner string) string { return strings.ReplaceAll(inner, "''", "'") }, node.Value)
	case node.Style&yaml.DoubleQuotedStyle != 0:
		length = quoted(rest, '"', unescaped, node.Value)
	case !bytes.HasPrefix(rest, []byte(node.Value)) || length == 0:
		return span{}, errManyLines
	}
	if length <= 0 {
		return span{}, errManyLines
	}
	return span{start, start + length}, nil
}

// from returns where a node begins, and the rest of its line.
func (s source) from(node *yaml.Node) (int, []byte, bool) {
	if node.Line < 1 || node.Line > len(s.lines) {
		return 0, nil, false
	}
	start, end := s.lines[node.Line-1], len(s.text)
	if node.Line < len(s.lines) {
		end = s.lines[node.Line]
	}
	if node.Line == 1 && bytes.HasPrefix(s.text, []byte("\ufeff")) {
		start += len("\ufeff")
	}
	for column := 1; column < node.Column; column++ {
		_, size := utf8.DecodeRune(s.text[start:end])
		if size == 0 {
			return 0, nil, false
		}
		start += size
	}
	return start, bytes.TrimRight(s.text[start:end], "\r\n"), true
}

// quoted returns the length of a quoted scalar, 0 if it does not read as the value.
func quoted(rest []byte, quote byte, read func(string) string, value string) int {
	if len(rest) == 0 || rest[0] != quote {
		return 0
	}
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && quote == '"':
			i++
		case rest[i] == quote && quote == '\'' && i+1 < len(rest) && rest[i+1] == quote:
			i++
		case rest[i] == quote:
			if read(string(rest[1:i])) != value {
				return 0
			}
			return i + 1
		}
	}
	return 0
}

// unescaped lets a text with escapes read as nothing that a value is: no image needs any.
func unescaped(inner string) string {
	if strings.Contains(inner, `\`) {
		return "\x00"
	}
	return inner
}
