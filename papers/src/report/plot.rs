//! Parts of all pictures, drawn with plotters: the document, colours, titles and legends.

use plotters::{
    coord::Shift,
    prelude::{
        Color, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, IntoTextStyle, RGBColor, Rectangle, SVGBackend,
        Text, TextStyle,
    },
};

/// Width of every picture, in pixels.
pub const WIDTH: u32 = 960;
/// Colours of series, distinguishable without colour vision, on white and on black.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0x88, 0x88, 0x88),
    RGBColor(0x2a, 0x7f, 0xd4),
    RGBColor(0xd9, 0x82, 0x2b),
    RGBColor(0x4a, 0x9e, 0x5c),
    RGBColor(0xa8, 0x5b, 0xb8),
    RGBColor(0xc9, 0xa2, 0x27),
    RGBColor(0xc0, 0x50, 0x4d),
];
/// Colour of axes, on white and on black.
pub const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
/// Sizes of text; plotters' unit is 0.8 pixels.
pub const SMALL: u32 = 13;
const TITLE: u32 = 17;
const LINE: i32 = 16;
/// Average width of a letter of [`SMALL`] text, in pixels.
pub const LETTER: i32 = 6;

/// Area of a picture for drawing.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Result of drawing into an area.
pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Makes a picture of this height with `draw`. Its texts are dark on light pages and light on dark ones.
pub fn picture(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    const STYLE: &str =
        "<style>text { fill: #333 } @media (prefers-color-scheme: dark) { text { fill: #ccc } }</style>\n";
    let mut out = String::new();
    let area = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
    // Drawing to a string cannot fail.
    let _ = draw(&area).and_then(|()| area.present());
    drop(area);
    let head = out.find("<svg").and_then(|start| Some(start + out[start..].find('>')? + 1)).unwrap_or(0);
    out.insert_str(head, &format!("\n{STYLE}"));
    out
}

/// Style of a text of this size.
pub fn style(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_text_style(&(WIDTH, WIDTH)).color(&RGBColor(0x33, 0x33, 0x33))
}

/// A number of an axis, without zeros at its end.
pub fn number(value: &f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Draws a title and the names of series below it, those of dashed curves beside an empty square, and returns the area
/// that is left.
pub fn headed<'a>(
    area: &Area<'a>,
    title: &str,
    names: &[(&str, RGBColor, bool)],
) -> Result<Area<'a>, DrawingAreaErrorKind<std::io::Error>> {
    area.draw(&Text::new(title.to_owned(), (8, 6), style(TITLE)))?;
    let width = area.dim_in_pixel().0 as i32;
    let (mut x, mut y) = (8, 6 + LINE + 4);
    for &(name, colour, is_dashed) in names {
        let needed = 14 + LETTER * name.chars().count() as i32;
        if x > 8 && x + needed > width {
            (x, y) = (8, y + LINE);
        }
        let square = if is_dashed { colour.stroke_width(2) } else { colour.filled() };
        area.draw(&Rectangle::new([(x, y), (x + 9, y + 9)], square))?;
        area.draw(&Text::new(name.to_owned(), (x + 14, y), style(SMALL)))?;
        x += needed + 14;
    }
    let used = if names.is_empty() { y } else { y + LINE };
    Ok(area.split_vertically(used).1)
}
