export default { output: 'export', reactStrictMode: false };
