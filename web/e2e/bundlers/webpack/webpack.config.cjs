module.exports = { entry: './main.js', devServer: { static: '.', hot: false, client: false } };
