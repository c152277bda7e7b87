package ledger_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"pgregory.net/rapid"
)

// TestConservation verifies that, for any logs, consistent or not, every entry
// of the client is in exactly one class, every balance is an identity, and the
// accounts of spans that partition time add up to the account of all time.
func TestConservation(t *testing.T) {
	outcomes := []string{ledger.OutcomeOK, ledger.OutcomeUnfinished, ledger.OutcomeConnect, ledger.OutcomeTimeout, ledger.OutcomeReset, ledger.OutcomeStatus, ledger.OutcomeOther, ""}
	services := []string{"load", "front", "bar", "old", "elsewhere", ""}
	flags := []string{"", "-", "UF", "UC", "URX,UF", "DC", "URX", "UT", "UH", "XX", ","}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(from []string, label string) string { return rapid.SampledFrom(from).Draw(t, label) }
		id := func() string { return fmt.Sprint("mm-", rapid.IntRange(0, 12).Draw(t, "id")) }
		status := rapid.SampledFrom([]int{0, 200, 204, 301, 404, 500, 503, 504})
		options := chain
		options.ClientProxy = rapid.Bool().Draw(t, "client proxy")
		options.Carried = rapid.Bool().Draw(t, "carried")
		b := ledger.New(options)
		clients := rapid.IntRange(0, 20).Draw(t, "clients")
		ids := map[string]bool{}
		for range clients {
			c := client(pick(outcomes, "outcome"), status.Draw(t, "status"))
			c.ID, c.IntendedNS = id(), rapid.Int64Range(-10, 99).Draw(t, "intended")
			if rapid.Bool().Draw(t, "not sent") {
				c.SentNS = record.Never
			}
			ids[c.ID] = true
			b.AddClient(c)
		}
		for range rapid.IntRange(0, 30).Draw(t, "proxies") {
			p := out(pick(services, "from"), pick(services, "to"), pick(flags, "flags"), status.Draw(t, "status"), rapid.IntRange(0, 4).Draw(t, "attempts"))
			p.ID, p.Side = id(), ledger.Side(rapid.IntRange(0, 2).Draw(t, "side"))
			p.One = rapid.Bool().Draw(t, "one attempt")
			p.Host = pick([]string{"", "10.0.0.1:8080"}, "host")
			b.AddProxy(p)
		}
		for range rapid.IntRange(0, 20).Draw(t, "workers") {
			w := work(pick(services, "service"), status.Draw(t, "status"), pick([]string{"answered", "gone", "reset"}, "ended"))
			w.ID = id()
			b.AddWorker(w)
		}
		accounts := b.Accounts(ledger.Span{}, ledger.Span{FromNS: -10, ToNS: 30}, ledger.Span{FromNS: 30, ToNS: 100})
		a := accounts[0]
		total := int64(0)
		for class, n := range a.Classes {
			if class == ledger.ClassOrphan {
				t.Fatalf("an orphan is no request of the client")
			}
			total += n
		}
		if total != a.Requests || a.Requests != int64(len(ids)) || a.Requests+a.Duplicates != int64(clients) {
			t.Fatalf("%d in classes, %d requests, %d duplicates, of %d entries with %d ids", total, a.Requests, a.Duplicates, clients, len(ids))
		}
		if int64(len(a.Unreconciled)) != a.Classes[ledger.ClassUnreconciled]+a.Orphans {
			t.Fatalf("%d of %d named", len(a.Unreconciled), a.Classes[ledger.ClassUnreconciled]+a.Orphans)
		}
		hops := int64(0)
		for hop, n := range a.Hops {
			if hop == ledger.HopNone {
				t.Fatalf("%d failures without a place", n)
			}
			hops += n
		}
		failed := a.Classes[ledger.ClassUnfinished]
		for _, n := range a.Failed {
			failed += n
		}
		if hops < failed {
			t.Fatalf("%d have a place of %d", hops, failed)
		}
		for _, e := range a.Equations {
			lost := int64(0)
			for _, n := range e.Lost {
				lost += n
			}
			if got, want := e.Arrived+lost+e.Missing-e.Surplus, e.Left; got != want && !(e.Open && got > want) {
				t.Fatalf("%+v does not add up", e)
			}
			if e.Holds != (e.Missing+e.Surplus == 0) {
				t.Fatalf("%+v holds", e)
			}
		}
		if accounts[1].Requests+accounts[2].Requests != a.Requests || accounts[1].Attempts+accounts[2].Attempts != a.Attempts {
			t.Fatalf("spans do not add up")
		}
		for class := range a.Classes {
			if accounts[1].Classes[class]+accounts[2].Classes[class] != a.Classes[class] {
				t.Fatalf("class %s of spans does not add up", class)
			}
		}
	})
}

// TestTruthReconciles verifies that a world in which every station logs what it
// did reconciles every request. Without one line of an answered attempt,
// exactly that request is listed.
func TestTruthReconciles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.IntRange(1, 12).Draw(t, "requests")
		var clients []ledger.ClientEntry
		var proxies []ledger.ProxyEntry
		var workers []ledger.WorkerEntry
		needed := []int{} // required lines of proxies
		kept := rapid.Bool().Draw(t, "a log of attempts is kept")
		var tries []ledger.ProxyEntry
		attempts := int64(0)
		for i := range requests {
			id := fmt.Sprint("mm-", i)
			line := out("load", "front", "", 0, 0)
			line.ID = id
			var answered []int
			silent := false
			try := func(status int, flags string) {
				one := line
				one.One, one.Attempt, one.StartNS, one.Status, one.Flags, one.Details = true, line.Attempts, int64(20+line.Attempts), status, flags, ""
				tries = append(tries, one)
				if status > 0 {
					answered = append(answered, len(proxies)) // the next line of the server
				}
				silent = silent || flags == "-"
			}
			most := rapid.IntRange(1, 4).Draw(t, "attempts allowed")
			for line.Attempts < most && line.Status != 200 {
				line.Attempts++
				line.Flags = ""
				server := in("front", "", 200)
				server.ID, server.StartNS = id, int64(30+line.Attempts)
				worker := work("front", 200, ledger.EndAnswered)
				worker.ID = id
				switch rapid.SampledFrom([]string{"refused", "good", "bad", "reset", "no listener", "silent"}).Draw(t, "fate") {
				case "refused":
					line.Flags, line.Status = "UF", 503
					try(0, "UF")
					continue
				case "good":
					line.Status = 200
					workers = append(workers, worker)
				case "bad":
					line.Status, server.Status, worker.Status = 503, 503, 503
					workers = append(workers, worker)
				case "reset":
					line.Status, server.Status, server.Flags = 503, 503, "UC"
					worker.Status, worker.Ended = 0, "reset"
					workers = append(workers, worker)
				case "no listener":
					line.Status, server.Status, server.Flags = 503, 503, "UF"
				case "silent": // hung, and killed before it logged anything
					line.Status, line.Flags, server.Status, server.Flags = 504, "UT", 0, "DC"
				}
				if line.Flags == "" {
					try(line.Status, "")
				} else {
					try(0, "-")
				}
				if server.Flags != "" {
					server.Details = ""
				}
				proxies = append(proxies, server)
			}
			if line.Status != 200 && most > 1 {
				line.Flags = "URX," + line.Flags
				if line.Flags == "URX," {
					line.Flags = "URX"
				}
			}
			line.Details = ""
			if line.Flags == "" || line.Flags == "URX" {
				line.Details = "via_upstream"
			}
			attempts += int64(line.Attempts)
			// Of attempts before the last only their number is known, unless an
			// attempt log is kept; and one that was given up can substitute for
			// one that was answered.
			if kept && !silent || line.Attempts == 1 {
				needed = append(needed, answered...)
			}
			needed = append(needed, len(proxies))
			proxies = append(proxies, line)
			outcome := ledger.OutcomeOK
			if line.Status != 200 {
				outcome = ledger.OutcomeStatus
			}
			c := client(outcome, line.Status)
			c.ID = id
			clients = append(clients, c)
		}
		account := func(without int) *ledger.Account {
			b := ledger.New(chain)
			for _, c := range clients {
				b.AddClient(c)
			}
			for i, p := range proxies {
				if i != without {
					b.AddProxy(p)
				}
			}
			for _, p := range tries {
				if kept {
					b.AddProxy(p)
				}
			}
			for _, w := range workers {
				b.AddWorker(w)
			}
			return b.Account()
		}
		a := account(-1)
		if !a.Reconciled || a.Attempts != attempts || a.Hidden != attempts-int64(requests) {
			t.Fatalf("%+v, want %d attempts", a, attempts)
		}
		if got, want := a.Amplification(), float64(attempts)/float64(requests); got != want {
			t.Fatalf("amplification %v, want %v", got, want)
		}
		lost := proxies[rapid.SampledFrom(needed).Draw(t, "lost line")]
		for i := range proxies {
			if proxies[i] == lost {
				a = account(i)
			}
		}
		if a.Reconciled || len(a.Unreconciled) != 1 || a.Unreconciled[0].ID != lost.ID {
			t.Fatalf("without %+v: %+v", lost, a.Unreconciled)
		}
	})
}

// TestMemory verifies the memory of entries: two million take a few hundred
// megabytes (119 MiB measured), so a tenth of them take a tenth.
func TestMemory(t *testing.T) {
	const requests = 50_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := ledger.New(chain)
	for i := range requests {
		id := fmt.Sprintf("mm-b000-t00-%d-%d", i%10, i)
		c, p, q, w := client(ledger.OutcomeOK, 200), out("load", "front", "", 200, 1), in("front", "", 200), work("front", 200, ledger.EndAnswered)
		c.ID, p.ID, q.ID, w.ID = id, id, id, id
		b.AddClient(c)
		b.AddProxy(p)
		b.AddProxy(q)
		b.AddWorker(w)
	}
	a := b.Account()
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc-before.HeapAlloc) >> 20
	if clients, _, _ := b.Entries(); clients != requests || !a.Reconciled || a.Classes[ledger.ClassOK] != requests {
		t.Fatalf("%+v", a)
	}
	t.Logf("%d entries in %d MiB", 4*requests, held)
	if held > 30 {
		t.Errorf("%d MiB for %d entries", held, 4*requests)
	}
}
