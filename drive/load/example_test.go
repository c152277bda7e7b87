package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/meshtrial/meshtrial/drive/load"
)

// 200 requests per second for half a second, evenly spaced, whether or not the
// server keeps up: latency counts from the time at which a request was intended
// to be sent.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer server.Close()

	spec := load.DefaultSpec(server.URL)
	spec.Rate, spec.Arrival, spec.DurationS = 200, load.Uniform, 0.5
	run, err := load.Start(context.Background(), spec, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := run.Result(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	all := result.Total()
	fmt.Println("scheduled:", all.Scheduled, "accounted for:", all.Completed+all.FailedTotal()+all.Unfinished)
	// Output:
	// scheduled: 100 accounted for: 100
}
