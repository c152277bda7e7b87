package generate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/analysis/words"
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
	// Failed are those of requests that failed: if all did, the log was made to have no others.
	Failed int64 `json:"failed,omitempty"`
	// Odd are lines that name a cluster elsewhere than their format says:
	// another format, or a field that a client filled with quotes and spaces.
	// Every host in them that the mesh knows is kept. TooLong are lines that were
	// not read.
	Odd       int64 `json:"odd,omitempty"`
	FirstOdd  int64 `json:"first_odd_line,omitempty"`
	TooLong   int64 `json:"too_long,omitempty"`
	FirstLong int64 `json:"first_long_line,omitempty"`
}

// ReadAccessLog reads an Envoy's access log in Istio's own text or JSON format,
// or any other that has the upstream cluster, a line at a time. Lines may begin
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
	if n := l.found.Failed; n == l.found.Requests && n >= fewest {
		return l.found, errs.WithHint(errs.Usage("all of its %d requests failed: a log without those that succeed does not say whom a workload calls", n),
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

// entry is what one line says.
type entry struct {
	cluster, authority string
	at                 time.Time
	failed             bool
	own                bool // the line has the form of Istio's text, be its cluster who it may
	loose              looseness
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
		l.found.Requests++
		l.found.Failed += int64(b2i(e.failed))
		return l.add(w, e)
	}
	// Every cluster anywhere in it: one too many costs some bytes, one too few
	// a request.
	clusters := clustersIn(line)
	if len(clusters) == 0 {
		return nil // what else a proxy writes
	}
	l.found.Requests++
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
	case !ok && ownClusters[e.cluster]:
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

// ownClusters are those of the bootstrap.
var ownClusters = map[string]bool{"prometheus_stats": true, "agent": true, "sds-grpc": true, "xds-grpc": true, "zipkin": true}

// jsonEntry reads a line of Istio's JSON format; ok is false for a line that is
// no JSON or has no upstream_cluster.
func jsonEntry(line []byte) (e entry, ok bool) {
	var fields struct {
		Start     any `json:"start_time"`
		Cluster   any `json:"upstream_cluster"`
		Authority any `json:"authority"`
		Server    any `json:"requested_server_name"`
		Code      any `json:"response_code"`
	}
	if json.Unmarshal(line, &fields) != nil {
		return e, false
	}
	if at, is := fields.Start.(string); is {
		e.at, _ = time.Parse(time.RFC3339, at)
	}
	if e.authority, _ = fields.Authority.(string); e.authority == "" || e.authority == "-" {
		e.authority, _ = fields.Server.(string)
	}
	if code, is := fields.Code.(float64); is {
		e.failed = code >= 400
	}
	e.cluster, ok = fields.Cluster.(string)
	if fields.Cluster == nil && bytes.Contains(line, []byte(`"upstream_cluster"`)) {
		ok = true // null
	}
	return e, ok && isCluster(e.cluster)
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
	var err error
	if e.at, err = time.Parse(time.RFC3339, string(at)); err != nil {
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
		code, _, _ := strings.Cut(strings.TrimSpace(string(parts[2])), " ")
		n, err := strconv.Atoi(code)
		e.failed = err == nil && n >= 400
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

// isAddress says whether a word is what stands for an address in a log.
func isAddress(word []byte) bool {
	return string(word) == "-" || bytes.ContainsRune(word, ':') && !bytes.ContainsAny(word, "|\"")
}

// isCluster says whether a word may be the name of a cluster.
func isCluster(word string) bool {
	return word == "" || word == "-" || len(word) <= longestCluster && !strings.ContainsAny(word, "\" \t{}")
}

// isHost says whether a word may be the host of a Service or ServiceEntry.
func isHost(word string) bool {
	if word == "" || len(word) > 253 {
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
// sidecars call each other: it stands in the log of whoever was called.
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
