package profile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Frames of a proxy with symbols, innermost first.
var (
	loop   = []string{"Envoy::Http::ConnectionManagerImpl::onData(Envoy::Buffer::Instance&, bool)", "event_process_active_single_queue", "event_base_loop", "main"}
	router = "Envoy::Router::Filter::decodeHeaders(Envoy::Http::RequestHeaderMap&, bool)"
	stats  = "Envoy::Extensions::HttpFilters::IstioStats::(anonymous namespace)::IstioStatsFilter::log(Envoy::Formatter::HttpFormatterContext const&)"
	rbac   = "Envoy::Extensions::HttpFilters::RBACFilter::RoleBasedAccessControlFilter::decodeHeaders(Envoy::Http::RequestHeaderMap&, bool)"
	chain  = "Envoy::Http::FilterManager::decodeHeaders(Envoy::Http::ActiveStreamDecoderFilter*, Envoy::Http::RequestHeaderMap&, bool)"
)

func scriptOf(at float64, weight int, frames ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "wrk:worker_0 1/2 %.6f: %d cpu-clock: \n", at, weight)
	for _, f := range frames {
		if name, ok := strings.CutSuffix(f, kernelMark); ok {
			fmt.Fprintf(&b, "\tffffffff81000001 %s+0x1 ([kernel.kallsyms])\n", name)
		} else {
			fmt.Fprintf(&b, "\t 55a1 %s+0x1 (/usr/local/bin/envoy)\n", f)
		}
	}
	return b.String() + "\n"
}

func TestCentres(t *testing.T) {
	for name, want := range map[string]string{
		router: "HTTP filter: envoy.filters.http.router",
		stats:  "HTTP filter: istio.stats",
		rbac:   "HTTP filter: envoy.filters.http.rbac",
		chain:  "network filter: envoy.filters.network.http_connection_manager",
		"Envoy::Extensions::HttpFilters::JwtAuthn::Filter::decodeHeaders()":                     "HTTP filter: envoy.filters.http.jwt_authn",
		"Envoy::Extensions::HttpFilters::Wasm::FilterConfig::FilterConfig()":                    "Wasm: host",
		"proxy_wasm::null_plugin::Stats::PluginRootContext::report()":                           "Wasm: Stats (null runtime)",
		"Envoy::Extensions::ListenerFilters::TlsInspector::Filter::onData()":                    "listener filter: envoy.filters.listener.tls_inspector",
		"Envoy::TcpProxy::Filter::onData()":                                                     "network filter: envoy.filters.network.tcp_proxy",
		"Envoy::Extensions::TransportSockets::Tls::SslSocket::doRead(Envoy::Buffer::Instance&)": "TLS: TLS",
		"bssl::tls_open_app_data(ssl_st*)":                                                      "TLS: TLS",
		"Envoy::Http::Http1::ConnectionImpl::dispatch(Envoy::Buffer::Instance&)":                "codec: HTTP/1",
		"nghttp2_session_mem_recv":                                                              "codec: HTTP/2",
		"Envoy::Stats::CounterImpl::inc()":                                                      "statistics: statistics",
		"Envoy::Extensions::AccessLoggers::File::FileAccessLog::emitLog()":                      "access log: access log",
		"Envoy::Event::DispatcherImpl::run(Envoy::Event::Dispatcher::RunType)":                  "event loop: event loop",
		"h2::proto::streams::streams::Streams<B,P>::recv_headers":                               "codec: HTTP/2",
		"<rustls::conn::Reader as std::io::Read>::read":                                         "TLS: TLS",
		"linkerd_app_outbound::http::logical::policy::router":                                   "routing and upstreams: routing and upstreams",
		"tokio::runtime::scheduler::multi_thread::worker::Context::run":                         "event loop: event loop",
		"ztunnel::proxy::outbound::OutboundConnection::proxy::{{closure}}":                      "routing and upstreams: routing and upstreams",
		"<ztunnel::proxy::h2::client::H2ConnectClient>::send_request":                           "codec: HTTP/2",
		"ztunnel::copy::copy_buf::{{closure}}":                                                  "connections and buffers: connections and buffers",
		"ztunnel::proxy::metrics::Metrics::record":                                              "statistics: statistics",
		"aws_lc_0_33_0_x25519_scalar_mult_generic_s2n_bignum":                                   "TLS: TLS",
		// As printed by a perf that does not demangle.
		"_ZN102_$LT$ztunnel..proxy..inbound..InboundCertProvider$u20$as$u20$ztunnel..tls..lib..ServerCertProvider$GT$10fetch_cert28_$u7b$$u7b$closure$u7d$$u7d$17h80764f7243e26da5E": "routing and upstreams: routing and upstreams",
		"runtime.scanobject": "language runtime: garbage collection",
		"istio.io/istio/pilot/pkg/xds.(*DiscoveryServer).Push": "making and sending configuration: pushing",
		"tcp_sendmsg_[k]":             "kernel: network",
		"nft_do_chain_[k]":            "kernel: packet filter",
		"do_epoll_wait_[k]":           "kernel: epoll",
		"exc_page_fault_[k]":          "kernel: memory",
		"_raw_spin_unlock_[k]":        "kernel: other",
		"memcpy":                      "other: other",
		"operator new(unsigned long)": "other: other",
	} {
		c := Cost([]*Profile{script(t, scriptOf(1, 10, name))}, nil)
		if len(c.Centres) != 1 || c.Centres[0].Group+": "+c.Centres[0].Name != want {
			t.Errorf("%s: %+v, want %s", name, c.Centres, want)
		}
	}
}

// A filter that calls the next one counts only its own part. A filter that
// occurs twice in a stack counts once. Kernel time is also attributed to its
// caller.
func TestNestedFilters(t *testing.T) {
	var b strings.Builder
	stack := func(at float64, weight int, inner ...string) {
		b.WriteString(scriptOf(at, weight, append(inner, loop...)...))
	}
	stack(1, 10, "operator new(unsigned long)", rbac, chain)
	stack(2, 20, stats, chain, rbac, chain)                      // rbac calls the next filter
	stack(3, 30, router, chain, rbac, chain, rbac, chain)        // occurs twice in the stack
	stack(4, 40, "tcp_sendmsg_[k]", "do_syscall_64_[k]", router) // in the kernel
	c := Cost([]*Profile{script(t, b.String())}, []ConfigFilter{
		{Group: GroupHTTPFilter, Name: "rbac", Centre: "envoy.filters.http.rbac", Places: 1},
		{Group: GroupHTTPFilter, Name: "fault", Centre: "envoy.filters.http.fault", Places: 1},
	})
	want := map[string][3]int64{ // weight, kernel, within
		"envoy.filters.http.rbac": {10, 0, 60}, "istio.stats": {20, 0, 20}, "envoy.filters.http.router": {30, 40, 70},
		"network": {40, 0, 40}, "event loop": {0, 0, 100},
	}
	sum, share := int64(0), 0.0
	for _, one := range c.Centres {
		sum += one.Weight
		share += one.Share
		if w, ok := want[one.Name]; ok && ([3]int64{one.Weight, one.Kernel, one.Within}) != w {
			t.Errorf("%s: %d, %d in the kernel, %d within, want %v", one.Name, one.Weight, one.Kernel, one.Within, w)
		}
	}
	if sum != 100 || c.Total != 100 || math.Abs(share-1) > 1e-9 {
		t.Errorf("%d of %d, shares %g", sum, c.Total, share)
	}
	if f := c.Filters; len(f) != 2 || !f[0].Seen || f[0].Share != 0.1 || f[0].Within != 0.6 || f[1].Seen || f[1].Share != 0 {
		t.Errorf("filters %+v", f)
	}
}

// For any profile, costs add up to the total, and intervals contain their
// shares.
func TestCostProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profiles := []*Profile{made(t)}
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			profiles = append(profiles, made(t))
		}
		c := Cost(profiles, nil)
		sum := int64(0)
		for _, one := range c.Centres {
			sum += one.Weight
			if !(0 <= one.Low && one.Low <= one.Share && one.Share <= one.High && one.High <= 1) || one.Within < one.Weight || one.Within > c.Total {
				t.Errorf("%+v", one)
			}
		}
		if sum != c.Total {
			t.Errorf("%d of %d", sum, c.Total)
		}
	})
}

// 95% intervals from blocks of time contain the true share in about 95%.
func TestCostCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	covered, times := 0, 300
	for range times {
		p := New(KindCPU, UnitNanoseconds)
		p.Period = 1
		stack := func(name string) StackID {
			return p.stack([]Frame{{Name: name, Module: "/x"}})
		}
		a, b := stack(rbac), stack("memcpy")
		for i := range 1000 {
			s := Sample{Stack: b, Thread: p.Thread(Thread{}), Weight: 1, TimeNS: int64(i) * 1e7}
			if r.Float64() < 0.14 {
				s.Stack = a
			}
			p.Add(s)
		}
		for _, one := range Cost([]*Profile{p}, nil).Centres {
			if one.Name == "envoy.filters.http.rbac" && one.Low <= 0.14 && 0.14 <= one.High {
				covered++
			}
		}
	}
	if share := float64(covered) / float64(times); share < 0.91 || share > 0.985 {
		t.Errorf("95%% intervals contain the true share in %.1f%%", 100*share)
	}
}

func TestReadFilters(t *testing.T) {
	dump := `{"configs": [{"@type": "x", "dynamic_listeners": [{"active_state": {"listener": {
	 "listener_filters": [{"name": "envoy.filters.listener.tls_inspector", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"}}],
	 "filter_chains": [{"filters": [{"name": "hcm", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "http_filters": [
	  {"name": "istio.stats", "typed_config": {"@type": "type.googleapis.com/udpa.type.v1.TypedStruct", "type_url": "type.googleapis.com/stats.PluginConfig", "value": {}}},
	  {"name": "mine", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "config": {"name": "planted", "vm_config": {"runtime": "envoy.wasm.runtime.v8"}}}},
	  {"name": "any name", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"}}]}}]},
	  {"filters": [{"name": "hcm", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"}}]}]}}}]}]}`
	filters, err := ReadFilters([]byte(dump))
	must.OK(t, err)
	var got []string
	for _, f := range filters {
		got = append(got, fmt.Sprintf("%s %s=%s %s %s %d", f.Group, f.Name, f.Centre, f.Plugin, f.Runtime, f.Places))
	}
	want := []string{
		"HTTP filter any name=envoy.filters.http.rbac   1", "HTTP filter istio.stats=istio.stats   1", "HTTP filter mine=Wasm planted envoy.wasm.runtime.v8 1",
		"listener filter envoy.filters.listener.tls_inspector=envoy.filters.listener.tls_inspector   1", "network filter hcm=envoy.filters.network.http_connection_manager   2",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, bad := range []string{"", "[]", "{}", "null", `"x"`} {
		if _, err := ReadFilters([]byte(bad)); err == nil {
			t.Errorf("%q is a config dump", bad)
		}
	}
}

func FuzzReadFilters(f *testing.F) {
	f.Add([]byte(`{"configs": [{"http_filters": [{"name": "a", "typed_config": {"@type": "x.wasm.y", "config": {"vm_config": {"runtime": "r"}}}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		filters, err := ReadFilters(data)
		for _, one := range filters {
			if err == nil && one.Places < 1 {
				t.Errorf("%+v", one)
			}
		}
	})
}
