//! Tables for people.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// A table without lines; `numeric` columns are aligned at the right.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    numeric: &[usize],
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows.map(|cells| cells.map(Cell::new)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for at in numeric {
        if let Some(column) = table.column_mut(*at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}
