package generate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

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
