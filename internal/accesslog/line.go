package accesslog

import (
	"bytes"
	"strings"
)

// Line is what a line of an Envoy's access log says of a request, or of a connection without
// requests. Numbers are -1 and texts empty where it does not say.
type Line struct {
	StartNS    int64 // since 1970
	DurationMS int64
	Status     int
	Flags      string // "" for none
	Protocol   string // "" for a connection
	Received   int64  // bytes from the caller
	Sent       int64  // bytes to the caller
	Cluster    string // that it was sent to
	Authority  string
	Source     string // the address that it was sent from
}

// Parse reads a line of JSON in any names that [Find] knows, or of the text formats that Istio and
// Envoy write by default. ok is false for any other line, and for one that is cut.
func Parse(line []byte) (l Line, ok bool) {
	line = bytes.TrimRight(line, "\r\n")
	if bytes.HasPrefix(line, []byte("{")) {
		return parseJSON(line)
	}
	return parseText(line)
}

func parseJSON(line []byte) (l Line, ok bool) {
	var values [Attempts + 1]struct {
		text string
		rank int
	}
	if !Scan(line, func(path, value []byte) {
		field, rank := Find(path)
		if field == Other || Missing(value) {
			return
		}
		if had := &values[field]; had.text == "" || rank < had.rank {
			had.text, had.rank = string(value), rank
		}
	}) {
		return l, false
	}
	text := func(f Field) string { return values[f].text }
	if l.StartNS, ok = Time(text(Start)); !ok {
		return l, false
	}
	l.DurationMS, l.Received, l.Sent = number(text(Duration)), number(text(Received)), number(text(Sent))
	if l.Status, ok = StatusCode(text(Status)); !ok {
		return l, false
	}
	l.Flags, l.Protocol, l.Cluster = text(Flags), text(Protocol), strings.TrimSuffix(text(Cluster), ";")
	l.Authority, l.Source = text(Authority), text(Source)
	return l, true
}

// parseText reads
//
//	[START] "METHOD PATH PROTOCOL" CODE FLAGS [DETAILS CLOSED "TRANSPORT"] RECEIVED SENT DURATION TIME "FORWARDED"
//	"AGENT" "ID" "AUTHORITY" "UPSTREAM" [CLUSTER SOURCE LOCAL REMOTE SERVER ROUTE]
//
// where Envoy's own format lacks what is in brackets. A client chooses what is in the path, and may
// put quotes there.
func parseText(line []byte) (l Line, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("["))
	if !ok {
		return l, false
	}
	start, rest, ok := bytes.Cut(rest, []byte(`] "`))
	if !ok {
		return l, false
	}
	if l.StartNS, ok = Time(string(start)); !ok {
		return l, false
	}
	request, rest, ok := l.ending(rest)
	if !ok {
		return l, false
	}
	if i := bytes.LastIndexByte(request, ' '); i >= 0 && !Missing(request[i+1:]) {
		l.Protocol = string(request[i+1:])
	}
	numbers, rest, ok := bytes.Cut(rest, []byte(` "`)) // before FORWARDED, or before TRANSPORT
	if words := bytes.Fields(numbers); ok && (len(words) < 4 || !isNumber(words[len(words)-4])) {
		_, rest, ok = bytes.Cut(rest, []byte(`" `))
		if ok {
			numbers, rest, ok = bytes.Cut(rest, []byte(` "`))
		}
	}
	words := bytes.Fields(numbers)
	if !ok || len(words) < 4 {
		return l, false
	}
	words = words[len(words)-4:]
	l.Received, l.Sent, l.DurationMS = number(string(words[0])), number(string(words[1])), number(string(words[2]))
	quoted := bytes.Split(rest, []byte(`"`))
	if len(quoted) < 10 { // FORWARDED, AGENT, ID, AUTHORITY, UPSTREAM and what is behind them
		return l, false
	}
	if authority := quoted[len(quoted)-4]; !Missing(authority) {
		l.Authority = string(authority)
	}
	if tail := bytes.Fields(quoted[len(quoted)-1]); len(tail) >= 2 {
		l.Cluster, l.Source = strings.TrimSuffix(present(tail[0]), ";"), present(tail[1])
	}
	return l, true
}

// ending finds the end of the request line: the first quote that a status and flags follow.
func (l *Line) ending(text []byte) (request, rest []byte, ok bool) {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(`" `))
		if i < 0 {
			return nil, nil, false
		}
		from += i + 2
		words := bytes.SplitN(text[from:], []byte(" "), 3)
		if len(words) < 3 {
			return nil, nil, false
		}
		if l.Status, ok = StatusCode(string(words[0])); ok {
			l.Flags = present(words[1])
			return text[:from-2], words[2], true
		}
	}
}

func present(value []byte) string {
	if Missing(value) {
		return ""
	}
	return string(value)
}

func isNumber(text []byte) bool { return number(string(text)) >= 0 }

func number(text string) int64 {
	if n, ok := Number(text); ok {
		return n
	}
	return -1
}

// Connection is what a line of a ztunnel's access log says of a connection.
type Connection struct {
	EndNS      int64 // since 1970
	DurationMS int64
	Outbound   bool
	Failed     bool
	Received   int64  // bytes from the caller
	Sent       int64  // bytes to the caller
	Namespace  string // of the caller
	Pod        string // the caller's; "" if unknown
	Service    string // called; "" if unknown
	Address    string // called
}

// ParseZtunnel reads a line that a ztunnel writes when a connection ends, as text or JSON. See
// istio/ztunnel, src/proxy/metrics.rs and src/telemetry.rs.
func ParseZtunnel(line []byte) (c Connection, ok bool) {
	if !bytes.Contains(line, []byte("connection complete")) {
		return c, false
	}
	c.DurationMS, c.Received, c.Sent = -1, -1, -1
	directed := false
	take := func(name, value string) {
		switch name {
		case "src.workload":
			c.Pod = value
		case "src.namespace":
			c.Namespace = value
		case "dst.service":
			c.Service = value
		case "dst.hbone_addr":
			c.Address = value
		case "dst.addr":
			if c.Address == "" {
				c.Address = value
			}
		case "direction":
			c.Outbound, directed = value == "outbound", true
		case "bytes_sent":
			c.Sent = number(value)
		case "bytes_recv":
			c.Received = number(value)
		case "duration":
			c.DurationMS = number(strings.TrimSuffix(value, "ms"))
		case "error":
			c.Failed = true
		}
	}
	if bytes.HasPrefix(line, []byte("{")) {
		whole := Scan(bytes.TrimRight(line, "\r\n"), func(path, value []byte) {
			if string(path) == "time" {
				c.EndNS, ok = Time(string(value))
				return
			}
			take(string(path), string(value))
		})
		return c.turned(), ok && whole && directed
	}
	at, rest, cut := bytes.Cut(line, []byte("\t"))
	if i := bytes.IndexByte(line, ' '); !cut || i >= 0 && i < len(at) {
		at, rest, _ = bytes.Cut(line, []byte(" "))
	}
	if c.EndNS, ok = Time(string(at)); !ok {
		return c, false
	}
	for len(rest) > 0 {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		end := bytes.IndexAny(rest, "= \t\r\n")
		if end < 0 {
			break
		}
		name := string(rest[:end])
		if rest[end] != '=' {
			rest = rest[end:]
			continue
		}
		rest = rest[end+1:]
		value, after := rest, []byte(nil)
		if inner, quoted := bytes.CutPrefix(rest, []byte(`"`)); quoted {
			if value, after, quoted = bytes.Cut(inner, []byte(`"`)); !quoted {
				return c, false
			}
		} else if i := bytes.IndexAny(rest, " \t\r\n"); i >= 0 {
			value, after = rest[:i], rest[i:]
		}
		take(name, string(value))
		rest = after
	}
	return c.turned(), directed
}

// turned gives an outbound connection its bytes from the caller's side: a ztunnel logs them from
// its own, and sends what the caller sent.
func (c Connection) turned() Connection {
	if c.Outbound {
		c.Received, c.Sent = c.Sent, c.Received
	}
	return c
}
