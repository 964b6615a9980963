package demo

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

//go:embed stock.csv
var stockFile string

//go:embed orders.csv
var ordersFile string

// product is one line of the stock list.
type product struct {
	sku, name string
	units     int
}

// order asks for some units of one product.
type order struct {
	id, sku string
	units   int
}

// input is what the demo works on.
type input struct {
	products []product
	orders   []order
}

// load reads the files that ship with the program.
func load() (input, error) {
	var in input
	stock, err := rows("stock.csv", stockFile, "sku", "name", "price", "units")
	if err != nil {
		return in, err
	}
	known := map[string]bool{}
	for i, r := range stock {
		units, err := strconv.Atoi(r[3])
		if err != nil {
			return in, fmt.Errorf("stock.csv: row %d: %w", i+2, err)
		}
		in.products = append(in.products, product{r[0], r[1], units})
		known[r[0]] = true
	}
	orders, err := rows("orders.csv", ordersFile, "order", "placed_at", "customer", "sku", "units")
	if err != nil {
		return in, err
	}
	for i, r := range orders {
		units, err := strconv.Atoi(r[4])
		if err != nil {
			return in, fmt.Errorf("orders.csv: row %d: %w", i+2, err)
		}
		if !known[r[3]] {
			return in, fmt.Errorf("orders.csv: row %d: no product %q", i+2, r[3])
		}
		in.orders = append(in.orders, order{r[0], r[3], units})
	}
	return in, nil
}

// rows returns the rows of a file below its header.
func rows(name, text string, columns ...string) ([][]string, error) {
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(all) == 0 || strings.Join(all[0], ",") != strings.Join(columns, ",") {
		return nil, fmt.Errorf("%s: want the columns %s", name, strings.Join(columns, ","))
	}
	return all[1:], nil
}

// units is how much of each product there is at the beginning.
func (in input) units() map[string]int {
	units := make(map[string]int, len(in.products))
	for _, p := range in.products {
		units[p.sku] = p.units
	}
	return units
}

// share is what one of n replicas handles, as a load balancer would deal it out.
func (in input) share(replica, n int) []order {
	var mine []order
	for i := replica; i < len(in.orders); i += n {
		mine = append(mine, in.orders[i])
	}
	return mine
}
