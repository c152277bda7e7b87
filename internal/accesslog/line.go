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

// Values are the fields of a line; "" for what it does not say. Flags may be "-": it says that there are none.
type Values [Attempts + 1]string

// Read reads a line of JSON in any names that [Find] knows, or of the text formats that Istio and
// Envoy write by default. Of several names of a field in JSON, the first counts that has a value of
// its type. whole is false for any other line, and for one that is cut: the values are then incomplete.
func Read(line []byte) (v Values, whole bool) {
	line = bytes.TrimRight(line, "\r\n")
	if bytes.HasPrefix(line, []byte("{")) {
		return readJSON(line)
	}
	whole = v.readText(line)
	return v, whole
}

// Parse is Read for lines with a start and a status, or with 0 as that of a connection. ok is false for
// any other line.
func Parse(line []byte) (l Line, ok bool) {
	v, ok := Read(line)
	if !ok {
		return l, false
	}
	l = Line{DurationMS: number(v[Duration]), Received: number(v[Received]), Sent: number(v[Sent]), Flags: present([]byte(v[Flags])),
		Protocol: v[Protocol], Cluster: v[Cluster], Authority: v[Authority], Source: v[Source]}
	if l.StartNS, ok = Time(v[Start]); ok {
		l.Status, ok = StatusCode(v[Status])
	}
	return l, ok
}

// CutPod removes what kubectl logs --prefix writes before a line, "[pod/POD/CONTAINER] ", and returns
// the pod; "" if there is none.
func CutPod(line []byte) (pod string, rest []byte) {
	if prefixed, ok := bytes.CutPrefix(line, []byte("[pod/")); ok {
		if name, rest, ok := bytes.Cut(prefixed, []byte("] ")); ok {
			name, _, _ = bytes.Cut(name, []byte("/"))
			return string(name), rest
		}
	}
	return "", line
}

func readJSON(line []byte) (v Values, whole bool) {
	var ranks [Attempts + 1]int
	whole = Scan(line, func(path, value []byte) {
		field, rank := Find(path)
		if field == Other || Missing(value) && (field != Flags || value == nil) || v[field] != "" && rank >= ranks[field] {
			return
		}
		text, ok := string(value), true
		switch field {
		case Start:
			_, ok = Time(text)
		case Status:
			_, ok = StatusCode(text)
		case Cluster:
			text = strings.TrimSuffix(text, ";")
		}
		if ok {
			v[field], ranks[field] = text, rank
		}
	})
	return v, whole
}

// readText reads
//
//	[START] "METHOD PATH PROTOCOL" CODE FLAGS [DETAILS CLOSED "TRANSPORT"] RECEIVED SENT DURATION TIME "FORWARDED"
//	"AGENT" "ID" "AUTHORITY" "UPSTREAM" [CLUSTER SOURCE LOCAL REMOTE SERVER ROUTE]
//
// where Envoy's own format lacks what is in brackets. A client chooses what is in the path, and may
// put quotes there.
func (v *Values) readText(line []byte) (whole bool) {
	rest, ok := bytes.CutPrefix(line, []byte("["))
	if !ok {
		return false
	}
	start, rest, ok := bytes.Cut(rest, []byte(`] "`))
	if !ok {
		return false
	}
	v[Start] = string(start)
	request, rest, ok := v.ending(rest)
	if !ok {
		return false
	}
	if i := bytes.LastIndexByte(request, ' '); i >= 0 {
		v[Protocol] = present(request[i+1:])
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
		return false
	}
	words = words[len(words)-4:]
	v[Received], v[Sent], v[Duration] = string(words[0]), string(words[1]), string(words[2])
	quoted := bytes.Split(rest, []byte(`"`))
	if len(quoted) < 10 { // FORWARDED, AGENT, ID, AUTHORITY, UPSTREAM and what is behind them
		return false
	}
	v[Authority] = present(quoted[len(quoted)-4])
	if tail := bytes.Fields(quoted[len(quoted)-1]); len(tail) >= 2 {
		v[Cluster], v[Source] = strings.TrimSuffix(present(tail[0]), ";"), present(tail[1])
	}
	return true
}

// areFlags reports whether a word may be response flags: "-", or names such as UF or NoHealthyUpstream.
func areFlags(word []byte) bool {
	return len(word) > 0 && (word[0] == '-' || word[0] >= 'A' && word[0] <= 'Z')
}

// ending finds the end of the request line: the first quote that a status and flags follow.
func (v *Values) ending(text []byte) (request, rest []byte, ok bool) {
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
		if _, ok = StatusCode(string(words[0])); ok && areFlags(words[1]) {
			v[Status], v[Flags] = string(words[0]), string(words[1])
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
