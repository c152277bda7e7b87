package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

const meshOfTwo = `{"items":[
 {"kind":"Service","metadata":{"namespace":"shop","name":"cart"},"spec":{"ports":[{"name":"http","port":80}]}},
 {"kind":"Service","metadata":{"namespace":"shop","name":"db"},"spec":{"ports":[{"name":"tcp","port":5432}]}},
 {"kind":"Service","metadata":{"namespace":"bank","name":"pay"},"spec":{"ports":[{"name":"http","port":80}]}},
 {"kind":"Pod","metadata":{"namespace":"shop","name":"cart-0","labels":{"app":"cart"}},"spec":{"containers":[{"name":"istio-proxy","args":["proxy","sidecar"]}]}}]}`

// askedOf runs assess config --generate against a Prometheus that answers so, and
// returns what it printed and what the server was asked.
func askedOf(t *testing.T, answer func(query string) string) (yaml, said string, queries []string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Scope-OrgID") != "shop" {
			t.Errorf("%s: no header", r.URL)
		}
		query := r.FormValue("query")
		if strings.HasSuffix(r.URL.Path, "/query_range") {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[%d,"5"]]}]}}`, time.Now().Add(-30*time.Hour).Unix())
			return
		}
		queries = append(queries, query)
		fmt.Fprint(w, answer(query))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "mesh.json")
	must.OK(t, os.WriteFile(file, []byte(meshOfTwo), 0o644))
	yaml, said, err = runIn(t.Context(), "assess", "config", "--from", file, "--prometheus-url", server.URL, "--prometheus-header", "X-Scope-OrgID: shop", "--window", "48h", "--generate", "-")
	return yaml, said, queries, err
}

// A live Prometheus is asked for every pair that had a request within the
// window, of connections too; where it has none at all, nobody knows whether
// anybody counts them, and TCP Services are kept.
func TestGenerateFromPrometheus(t *testing.T) {
	yaml, said, queries, err := askedOf(t, func(query string) string {
		if strings.Contains(query, "istio_tcp") {
			return `{"status":"success","data":{"resultType":"vector","result":[]}}`
		}
		return `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"reporter":"source","source_workload":"cart-0","source_workload_namespace":"shop",
			"destination_workload":"pay","destination_workload_namespace":"bank","destination_service":"pay.bank.svc.cluster.local","destination_service_name":"pay","destination_service_namespace":"bank","request_protocol":"http"},"value":[1,"12"]}]}}`
	})
	if err != nil || len(queries) != 2 || !strings.Contains(queries[0], "(max_over_time(istio_requests_total[172800s]))") || !strings.Contains(queries[1], "istio_tcp_connections_opened_total[") {
		t.Fatalf("%v: %v", err, queries)
	}
	if !strings.Contains(yaml, "- bank/pay.bank.svc.cluster.local\n") || !strings.Contains(yaml, "- ./db.shop.svc.cluster.local\n") {
		t.Error(yaml)
	}
	if !strings.Contains(said, "of the last 30h0m0s only") || !strings.Contains(said, "cover 30h") {
		t.Error(said)
	}
}

// endsAll is a reader that cancels everything once it was read.
type endsAll struct {
	io.Reader
	cancel context.CancelFunc
}

func (e endsAll) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		e.cancel()
	}
	return n, err
}

// Who is interrupted once all was read generates nothing more.
func TestGenerateInterrupted(t *testing.T) {
	file, to := filepath.Join(t.TempDir(), "mesh.json"), filepath.Join(t.TempDir(), "out")
	must.OK(t, os.WriteFile(file, []byte(meshOfTwo), 0o644))
	line := `{"upstream_cluster":"outbound|80||pay.bank.svc.cluster.local","response_code":200,"start_time":"2026-11-25T09:46:00.000Z"}` + "\n"
	for name, c := range map[string]struct {
		interrupted bool
	}{"whole": {false}, "interrupted": {true}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var in io.Reader = strings.NewReader(line)
		if c.interrupted {
			in = endsAll{in, cancel}
		}
		var said bytes.Buffer
		err := Run(ctx, []string{"assess", "config", "--from", file, "--access-log", "shop/cart=-", "--watched", "0", "--generate", filepath.Join(to, name)},
			&Env{Stdin: in, Stdout: &said, Stderr: &said})
		_, missing := os.Stat(filepath.Join(to, name, fileSidecars))
		if errors.Is(err, context.Canceled) != c.interrupted || (missing != nil) != c.interrupted {
			t.Errorf("%s: %v, the Sidecars: %v\n%s", name, err, missing, said.String())
		}
	}
}

func TestGenerateFromPrometheusFailures(t *testing.T) {
	for answer, says := range map[string]string{
		`{"status":"error","errorType":"execution","error":"too many samples"}`:                                 "too many samples",
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1,"1"]}]}}`: "source_workload",
		`<html>`: "not an answer of Prometheus",
		`{"status":"success","warnings":["receive series from Addr: thanos-store-2: rpc error: code = Unavailable"],"data":{"resultType":"vector","result":[]}}`: "may not be whole",
	} {
		_, _, _, err := askedOf(t, func(string) string { return answer })
		if err == nil || !strings.Contains(err.Error()+errs.Hint(err), says) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
