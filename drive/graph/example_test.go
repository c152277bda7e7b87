package graph_test

import (
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
)

// A shop's front calls its cart for every request, and the cart calls its stock
// twice for every other one. What load does each service see at 100 requests
// per second, and which one saturates first?
func Example() {
	shop := graph.Graph{Services: []graph.Service{
		{Name: "front", Calls: []graph.Call{{To: "cart"}}},
		{Name: "cart", Calls: []graph.Call{{To: "stock", Probability: 0.5, Times: 2}}},
		{Name: "stock", Replicas: 2, Concurrency: 1, ServiceTime: graph.ServiceTime{Distribution: graph.Fixed, Mean: 15 * time.Millisecond}},
	}}.WithDefaults()
	if problems := shop.Check(); problems != nil {
		fmt.Println(problems)
		return
	}
	flow, err := shop.Flow(graph.Load{Entry: "front", RPS: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range flow.Services {
		fmt.Printf("%-5s %3.0f requests per second, each for %v\n", s.Service, s.RPS, s.Hold)
	}
	stock := flow.Capacity("stock", 1)
	fmt.Printf("with one replica of stock gone: %.0f%% used, %.0f%% not served\n", 100*stock.Utilisation, 100*stock.Unserved)
	// Output:
	// front 100 requests per second, each for 15ms
	// cart  100 requests per second, each for 15ms
	// stock 100 requests per second, each for 15ms
	// with one replica of stock gone: 150% used, 33% not served
}

// Retries multiply if each layer retries.
func ExampleAmplification() {
	once := graph.Amplification(0.5, 2)
	fmt.Printf("half of all attempts fail, two retries: %.2f attempts per request\n", once)
	fmt.Printf("three layers that all retry: %.1f\n", once*once*once)
	// Output:
	// half of all attempts fail, two retries: 1.75 attempts per request
	// three layers that all retry: 5.4
}
