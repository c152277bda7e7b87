package generate

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/accesslog"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// maxLine is the longest line of an access log that is read whole, bytes: more than
// what Envoy lets the headers of a request have (96 KiB at most), each character
// escaped to six.
const maxLine = 1 << 20

// LogFile is what was found in an access log.
type LogFile struct {
	Lines    int64 `json:"lines"`
	Requests int64 `json:"requests"` // lines that name a cluster
	// Failed and Unknown are those of requests that failed, and that do not say how they ended.
	// A log without any that succeeded was made to have none.
	Failed  int64 `json:"failed,omitempty"`
	Unknown int64 `json:"unknown,omitempty"`
	// Odd are lines that name a cluster elsewhere than their format says:
	// another format, or a field that a client filled with quotes and spaces.
	// Every host in them that the mesh knows is kept. TooLong are lines that were
	// not read.
	Odd       int64 `json:"odd,omitempty"`
	FirstOdd  int64 `json:"first_odd_line,omitempty"`
	TooLong   int64 `json:"too_long,omitempty"`
	FirstLong int64 `json:"first_long_line,omitempty"`
}

// ReadAccessLog reads an Envoy's access log in Istio's own text format, as JSON
// with names of fields that package accesslog knows, or in any other format
// that has the upstream cluster, a line at a time. Lines may begin
// as `kubectl logs --prefix` makes them; pod then says whose they are. Others
// are those of w. known says whether the mesh has a host that a namespace calls:
// of what clients may have written, few others are kept. It is an error if no
// line names a cluster ([NoRequestsError]), or if the reader fails.
func (o *Observations) ReadAccessLog(r io.Reader, w Workload, pod func(name string) Workload, known func(host, caller string) bool) (LogFile, error) {
	l := &logReader{o: o, workload: w, pod: pod, known: known, pods: map[string]Workload{}}
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			l.found.Lines++
			if l.found.TooLong++; l.found.TooLong == 1 {
				l.found.FirstLong = l.found.Lines
			}
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = lines.ReadSlice('\n')
			}
			line = nil
		} else if len(line) > 0 {
			l.found.Lines++
		}
		if problem := l.line(bytes.TrimRight(line, "\r\n")); problem != nil {
			return l.found, fmt.Errorf("line %d: %w", l.found.Lines, problem)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return l.found, fmt.Errorf("after line %d: %w", l.found.Lines, err)
		}
	}
	if l.found.Requests == 0 {
		return l.found, errs.WithHint(errs.WithCode(&NoRequestsError{l.found.Lines}, errs.CodeUsage),
			"switch it on with meshConfig.accessLogFile: /dev/stdout, or a Telemetry resource, and take it with: kubectl logs --prefix -n NAMESPACE -l app=NAME -c istio-proxy --tail=-1")
	}
	if n := l.found.Failed; n >= fewest && n+l.found.Unknown == l.found.Requests {
		return l.found, errs.WithHint(errs.Usage("none of its %d requests is known to have succeeded, and %d failed: a log without those that succeed does not say whom a workload calls", l.found.Requests, n),
			"take the filter off (a Telemetry resource, accessLogging.filter) for as long as is to be watched, or give another source")
	}
	return l.found, nil
}

// NoRequestsError says that a log has no request: it is of a workload that nobody
// calls and that calls nobody, or no access log.
type NoRequestsError struct{ Lines int64 }

func (e *NoRequestsError) Error() string {
	if e.Lines == 0 {
		return "it has no lines"
	}
	return fmt.Sprintf("none of %s names an upstream cluster, as those of a sidecar's access log do", words.Plural(int(e.Lines), "line"))
}

// fewest are the failed requests from which a log that has no others is taken to be
// filtered.
const fewest = 10

type logReader struct {
	o        *Observations
	workload Workload
	pod      func(string) Workload
	known    func(host, caller string) bool
	pods     map[string]Workload
	found    LogFile
}

func (l *logReader) line(line []byte) error {
	w := l.workload
	rest, prefixed := bytes.CutPrefix(line, []byte("[pod/"))
	if name, after, found := bytes.Cut(rest, []byte("] ")); prefixed && found {
		pod, _, _ := strings.Cut(string(name), "/")
		known, seen := l.pods[pod]
		if !seen {
			if len(l.pods) == maxWorkloads {
				return errs.Usage("more than %d pods", maxWorkloads)
			}
			known = l.pod(pod)
			l.pods[pod] = known
		}
		w, line = known, after
	}
	var e entry
	var ok bool
	if len(line) > 0 && line[0] == '{' {
		e, ok = jsonEntry(line)
	} else {
		e, ok = textEntry(line)
	}
	if ok {
		if e.cluster == "" || e.cluster == "-" { // answered by the proxy itself
			return nil
		}
		l.request(e.ended)
		return l.add(w, e)
	}
	// Every cluster anywhere in it: one too many costs some bytes, one too few
	// a request.
	clusters := clustersIn(line)
	if len(clusters) == 0 {
		return nil // what else a proxy writes
	}
	l.request(e.ended)
	if l.found.Odd++; l.found.Odd == 1 {
		l.found.FirstOdd = l.found.Lines
	}
	for _, cluster := range clusters {
		loose := anywhere
		if e.own && cluster != e.cluster {
			loose = beside
		}
		if err := l.add(w, entry{cluster: cluster, at: e.at, loose: loose}); err != nil {
			return err
		}
	}
	return nil
}

// request counts a line of a request.
func (l *logReader) request(ended ending) {
	l.found.Requests++
	switch ended {
	case endFailed:
		l.found.Failed++
	case endUnknown:
		l.found.Unknown++
	}
}

func (l *logReader) add(w Workload, e entry) error {
	e.cluster = strings.TrimSuffix(e.cluster, ";") // of its name in statistics
	if passthrough[e.cluster] {
		return l.o.Left(w, stripPort(e.authority), 1, AccessLog, At(e.at))
	}
	if strings.HasPrefix(e.cluster, "InboundPassthroughCluster") {
		return l.o.Served(w, 1, AccessLog, At(e.at))
	}
	direction, _, _, host, ok := scope.SplitCluster(e.cluster)
	switch {
	case !ok && scope.OwnCluster(e.cluster):
		return nil
	case ok && direction != "outbound":
		return l.o.Served(w, 1, AccessLog, At(e.at))
	case !ok || !isHost(host):
		return l.o.Strange(w, e.cluster, AccessLog, At(e.at))
	}
	if e.loose != firm && (l.known == nil || !l.known(host, w.Namespace)) {
		if room, err := l.o.room(w, host, e.loose, At(e.at)); err != nil || !room {
			return err
		}
	}
	return l.o.Call(Edge{From: w, Host: host, Count: 1, Sources: AccessLog, Span: At(e.at), loose: e.loose})
}

// entry is what one line says.
type entry struct {
	cluster, authority string
	at                 time.Time
	ended              ending
	own                bool // the line has the form of Istio's text, be its cluster who it may
	loose              looseness
}

// ending is how a request ended.
type ending int

const (
	endUnknown ending = iota
	endSucceeded
	endFailed
)

// endOf reads a response code and response flags, as far as a line has them. Of
// a connection without requests the code is 0, and its flags say whether it
// failed; a caller that went away before the answer (DC, DR) proves nothing.
// See envoyproxy.io/docs, Access logging, RESPONSE_FLAGS.
func endOf(code, flags string) ending {
	switch n, ok := accesslog.StatusCode(code); {
	case !ok:
		return endUnknown
	case n >= 400:
		return endFailed
	case n > 0 || flags == "-":
		return endSucceeded
	}
	switch flags {
	case "", "DC", "DR", "DownstreamConnectionTermination", "DownstreamRemoteReset":
		return endUnknown
	}
	return endFailed
}

// firstYear is when times in logs begin: before it there was no Envoy, and the
// field is not a time.
const firstYear = 2010

// timeOf reads when a request began; the zero time if the text does not say.
func timeOf(text string) time.Time {
	if ns, ok := accesslog.Time(text); ok {
		if t := time.Unix(0, ns).UTC(); t.Year() >= firstYear {
			return t
		}
	}
	return time.Time{}
}

// jsonEntry reads a line of JSON. ok is false for a line that is no JSON, has
// no upstream cluster, or has two that differ: where the format is a text, a
// client may have written one of them.
func jsonEntry(line []byte) (e entry, ok bool) {
	type value struct {
		text string
		rank int
	}
	var of [accesslog.Attempts + 1]value
	found, several := false, false
	whole := accesslog.Scan(line, func(path, text []byte) {
		field, rank := accesslog.Find(path)
		switch field {
		case accesslog.Cluster:
			cluster := strings.TrimSuffix(string(text), ";")
			several = several || found && cluster != e.cluster
			e.cluster, found = cluster, true
			return
		case accesslog.Start:
			if timeOf(string(text)).IsZero() {
				return
			}
		case accesslog.Status:
			if _, ok := accesslog.StatusCode(string(text)); !ok {
				return
			}
		case accesslog.Flags:
			if len(text) == 0 {
				text = []byte("-")
			}
		case accesslog.Authority, accesslog.ServerName:
			if accesslog.Missing(text) {
				return
			}
		default:
			return
		}
		if known := of[field]; known.text == "" || rank < known.rank {
			of[field] = value{string(text), rank}
		}
	})
	if !whole {
		return entry{}, false
	}
	e.at = timeOf(of[accesslog.Start].text)
	e.authority = cmp.Or(of[accesslog.Authority].text, of[accesslog.ServerName].text)
	e.ended = endOf(of[accesslog.Status].text, of[accesslog.Flags].text)
	return e, found && !several && isCluster(e.cluster)
}

// textEntry reads a line of Istio's text format from its end, because what
// stands before is the client's to choose and Envoy escapes no quotes:
//
//	[TIME] "METHOD PATH..." ... "AUTHORITY" "UPSTREAM" CLUSTER LOCAL LOCAL REMOTE SERVER-NAME ROUTE
func textEntry(line []byte) (e entry, ok bool) {
	rest, found := bytes.CutPrefix(line, []byte("["))
	if !found {
		return e, false
	}
	at, _, found := bytes.Cut(rest, []byte("]"))
	if !found {
		return e, false
	}
	if e.at = timeOf(string(at)); e.at.IsZero() {
		return e, false
	}
	var tail [6][]byte
	for i := 5; i >= 0; i-- {
		space := bytes.LastIndexByte(line, ' ')
		if space < 0 {
			return e, false
		}
		tail[i], line = line[space+1:], line[:space]
	}
	e.cluster = strings.TrimSuffix(string(tail[0]), ";")
	if parts := bytes.SplitN(line, []byte(`"`), 4); len(parts) > 3 { // quotes in the path hide it
		if words := strings.Fields(string(parts[2])); len(words) > 1 {
			e.ended = endOf(words[0], words[1])
		}
	}
	// A client may name its server, the last field but one, so that fields
	// shift: what stands here must be a cluster, after a quote, and no other
	// may be in the line.
	if !isCluster(e.cluster) || !bytes.HasSuffix(line, []byte(`"`)) {
		return e, false
	}
	e.own = e.cluster != "" && isAddress(tail[1]) && isAddress(tail[2]) && isAddress(tail[3])
	if len(clustersIn(line)) > 0 {
		return e, false
	}
	for i := 1; i < 6; i++ {
		if len(clustersIn(tail[i])) > 0 {
			return e, false
		}
	}
	if !passthrough[e.cluster] {
		return e, true
	}
	if parts := bytes.Split(line, []byte(`"`)); len(parts) >= 5 {
		e.authority = string(parts[len(parts)-4])
	}
	if e.authority == "" || e.authority == "-" {
		e.authority = string(tail[4])
	}
	return e, true
}

// isAddress reports whether a word is what stands for an address in a log.
func isAddress(word []byte) bool {
	return string(word) == "-" || bytes.ContainsRune(word, ':') && !bytes.ContainsAny(word, "|\"")
}

// isCluster reports whether a word may be the name of a cluster.
func isCluster(word string) bool {
	return word == "" || word == "-" || len(word) <= longestCluster && !strings.ContainsAny(word, "\" \t{}")
}

// isHost reports whether a word may be the host of a Service or ServiceEntry.
func isHost(word string) bool {
	if strings.Trim(word, ".") == "" || len(word) > 253 {
		return false
	}
	for _, c := range word {
		if c != '.' && c != '-' && c != '_' && c != '*' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// directions are how the names of a service's clusters begin. The other
// spelling of such names (outbound_.80_._.HOST) is the server name by which
// sidecars call each other: it is in the log of the workload that was called.
var directions = [][]byte{[]byte("outbound|"), []byte("inbound|")}

// endOfCluster are the characters that end the name of a cluster.
const endOfCluster = "\" \t,;{}\\'"

// longestCluster is how long the name of a cluster may be: more is none, and no search for
// its end goes further.
const longestCluster = 1024

// clustersIn are the names of clusters in a text, each once.
func clustersIn(line []byte) []string {
	var found []string
	known := map[string]bool{}
	for _, direction := range directions {
		for from := 0; ; {
			i := bytes.Index(line[from:], direction)
			if i < 0 {
				break
			}
			begin := from + i
			end := min(begin+longestCluster+1, len(line))
			if n := bytes.IndexAny(line[begin:end], endOfCluster); n >= 0 {
				end = begin + n
			}
			name := string(line[begin:end])
			if _, _, _, host, ok := scope.SplitCluster(name); ok && len(name) <= longestCluster && !known[name] && (host == "" || isHost(host)) {
				known[name] = true
				found = append(found, name)
			}
			from = begin + len(direction)
		}
	}
	return found
}
