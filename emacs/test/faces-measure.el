;;; faces-measure.el --- How well can be read what a chat shows  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; emacs -nw -Q -l faces-measure.el, on the terminal whose colours are meant:
;; loads each theme, looks at a chat and at each face of the package as the
;; person does, and writes what misses its figure to EDN_BRIDGE_FACES_OUT.
;; EDN_BRIDGE_FACES_THEMES has folders with themes, beside Emacs's own.
;;
;; It measures by itself: nothing of edn-bridge-faces.el is used but the
;; classes of the faces.

;;; Code:

(require 'color)
(let ((folder (file-name-directory load-file-name)))
  (push folder load-path)
  (push (or (getenv "EDN_BRIDGE_FACES_PACKAGE") (expand-file-name ".." folder))
        load-path))
(require 'edn-bridge-test-support)

(defvar disable-theme-functions)

(defconst faces-measure-figures '((read . 4.5) (muted . 3.0) (mark . 1.0))
  "Contrast that text of each class has at least.")

(defun faces-measure-luminance (color)
  "Return the luminance of COLOR as this terminal shows it."
  (cl-loop for value in (color-values color)
           for weight in '(0.2126 0.7152 0.0722)
           for part = (/ value 65535.0)
           sum (* weight (if (<= part 0.04045)
                             (/ part 12.92)
                           (expt (/ (+ part 0.055) 1.055) 2.4)))))

(defun faces-measure-contrast (one other)
  "Return the contrast of the colours ONE and OTHER."
  (let ((a (faces-measure-luminance one))
        (b (faces-measure-luminance other)))
    (/ (+ 0.05 (max a b)) (+ 0.05 (min a b)))))

(defun faces-measure-color (color ground)
  "Return COLOR, or the terminal's own where it has none.
GROUND is non-nil if it is a background."
  (if (and (stringp color) (not (string-prefix-p "unspecified" color)))
      color
    (if (eq (and ground t) (eq (frame-parameter nil 'background-mode) 'dark))
        "#000000"
      "#ffffff")))

(defun faces-measure-seen (faces)
  "Return the foreground and background that text with FACES is seen in.
FACES are from the top to the bottom; `default' is below them."
  (let (text ground inverse)
    (dolist (face (append faces '(default)))
      (let ((own (lambda (key)
                   (let ((value (if (facep face)
                                    (face-attribute face key nil t)
                                  (plist-get face key))))
                     (and (not (eq value 'unspecified)) value)))))
        (setq text (or text (funcall own :foreground))
              ground (or ground (funcall own :background))
              inverse (or inverse (funcall own :inverse-video)))))
    (let ((seen (list (faces-measure-color text nil)
                      (faces-measure-color ground t))))
      (if (eq inverse t) (reverse seen) seen))))

(defun faces-measure-class (faces)
  "Return the class of text with FACES: that of the topmost that has text."
  (or (cl-some (lambda (face)
                 (let ((class (and (symbolp face)
                                   (plist-get (get face 'edn-bridge-faces)
                                              :class))))
                   (and (memq class '(read muted)) class)))
               faces)
      'read))

(defvar faces-measure-failures nil "What misses its figure.")
(defvar faces-measure-worst nil "The least contrast by class, of this theme.")

(defun faces-measure-check (theme faces what)
  "Note how text with FACES, which is WHAT, can be read in THEME."
  (let* ((class (faces-measure-class faces))
         (own (apply #'faces-measure-contrast (faces-measure-seen nil)))
         (figure (min own (alist-get class faces-measure-figures)))
         (seen (faces-measure-seen faces))
         (contrast (apply #'faces-measure-contrast seen)))
    (when (< contrast (or (alist-get class faces-measure-worst) 100))
      (setf (alist-get class faces-measure-worst) contrast))
    (when (< (+ contrast 0.005) figure)
      (push (list theme what class faces seen contrast) faces-measure-failures))))

(defun faces-measure-faces (theme)
  "Check each face of the package in THEME on each ground it can stand on."
  (dolist (face edn-bridge-faces)
    (let ((recipe (get face 'edn-bridge-faces)))
      (unless (eq (plist-get recipe :class) 'mark)
        (if (stringp (face-attribute face :background nil t))
            (faces-measure-check theme (list face) face)
          (dolist (ground (or (plist-get recipe :on) '(default)))
            (let ((ground (pcase ground
                            ('default nil)
                            ('raised '(edn-bridge-raised))
                            (other (list other)))))
              ;; Text of a line that the theme itself makes hard to read is
              ;; bound by the rest of that line.
              (unless (and (memq (car ground)
                                 '(header-line mode-line mode-line-inactive))
                           (equal (car (faces-measure-seen (cons face ground)))
                                  (car (faces-measure-seen ground))))
                (faces-measure-check theme (cons face ground) face)))))))))

(defun faces-measure-chat (theme)
  "Check each character of the current chat in THEME."
  (goto-char (point-min))
  (let ((seen nil))
    (while (not (eobp))
      (let* ((faces (ensure-list (get-char-property (point) 'face)))
             (next (next-single-char-property-change (point) 'face))
             (faces (if (keywordp (car faces)) (list faces) faces)))
        (unless (member faces seen)
          (push faces seen)
          (faces-measure-check
           theme faces (truncate-string-to-width
                        (buffer-substring-no-properties (point) next) 30)))
        (goto-char next)))))

(defconst faces-measure-answer
  (concat "Some *text* with `code`, a [link](https://example.org), ~~struck~~.\n"
          "# Heading\n> quoted\n\n| a | b |\n|---|---|\n| c | `d` |\n\n"
          "```el\n;; A comment\n(defun f (x) \"Doc.\" (let ((y 'z)) (if x 1 \"s\")))\n```\n"
          "```python\n# Comment\nclass A(B):\n    \"\"\"Doc.\"\"\"\n"
          "    @wraps\n    def f(self) -> int:\n        return None or \"x\"\n```\n"
          "```sh\n#!/bin/sh\nfor i in \"$x\"; do echo ${y}; done # end\n```\n"
          "```c\n#include <stdio.h>\nint main(void) { return 0; /* x */ }\n```\n"
          "```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n```\n")
  "An answer with what an answer can have.")

(defconst faces-measure-diff
  (concat "--- a/x.py\n+++ b/x.py\n@@ -1,5 +1,5 @@\n # Comment\n def f(self):\n"
          "-    return \"one\" + other  # why\n+    return \"two\" + other  # because\n"
          "     pass\n")
  "A diff.")

(defun faces-measure-drop-themes ()
  "Disable all themes."
  ;; The next theme has the faces computed.
  (let ((disable-theme-functions nil))
    (dolist (theme custom-enabled-themes)
      (condition-case nil
          (disable-theme theme)
        ;; A theme with a colour that is none; see `faces-measure-load'.
        (error
         (setq custom-enabled-themes (delq theme custom-enabled-themes))
         (mapatoms
          (lambda (symbol)
            (when (get symbol 'theme-face)
              (put symbol 'theme-face
                   (assq-delete-all theme (get symbol 'theme-face)))))))))))

(defun faces-measure-load (theme)
  "Load THEME; return nil, or why it cannot be loaded."
  (condition-case err
      (progn (load-theme theme t) nil)
    (error (error-message-string err))))

(defun faces-measure-all ()
  "Measure all themes, and return a list of lines."
  (let ((folders (split-string (or (getenv "EDN_BRIDGE_FACES_THEMES") "")
                               path-separator t))
        (lines nil))
    (setq load-path (append load-path folders)
          custom-theme-load-path (append custom-theme-load-path folders)
          custom-safe-themes t
          warning-minimum-level :emergency)
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event
       conn "session/rehydrated" :session-id "s1"
       :messages
       (vector (list :id "e0" :role "user"
                     :content (vector (list :type :text :text "Hello")))
               (list :id "e1" :role "assistant"
                     :content
                     (vector (list :type :text :text faces-measure-answer)))))
      (edn-bridge-test-event
       conn "tool/result" :session-id "s1" :tool-id "c1" :tool-name "bash"
       :call-summary "make" :is-error t
       :result-text "x.c:12: it failed\n[exit status 2]")
      (edn-bridge-test-event
       conn "tool/result" :session-id "s1" :tool-id "c2" :tool-name "edit"
       :call-summary "x.py" :is-error :false :result-text "ok"
       :details (list :diff faces-measure-diff))
      (edn-bridge-tools-toggle)
      (edn-bridge-chat-notice "A notice" 'edn-bridge-error)
      (edn-bridge-test-event conn "interaction/requested"
                             :interaction-id "i2" :kind "confirm"
                             :correlation-id "t1" :session-id "s1"
                             :payload '(:prompt "Sure?"))
      (edn-bridge-test-event conn "interaction/answered"
                             :interaction-id "i2" :status "accepted")
      (edn-bridge-test-ask
       conn "approve"
       '(:tool "bash" :tool-id "c9" :danger t :warnings "Beware"
               :command "cd \"$HOME\" && rm -r x # gone"
               :suggested-rule (:decision :allow :tool "bash" :command "rm")))
      (edn-bridge-test-event
       conn "interaction/requested" :interaction-id "i3" :kind "approve"
       :correlation-id "t1" :session-id "s1"
       :payload (list :tool "edit" :tool-id "c8" :paths ["x.py"]
                      :diff faces-measure-diff))
      (edn-bridge-test-wait (progn (edn-bridge-markdown-fontify-blocks)
                                   (not edn-bridge-markdown--buffers))
                            60)
      (dolist (theme (cons nil (sort (custom-available-themes) #'string<)))
        (faces-measure-drop-themes)
        (setq faces-measure-worst nil)
        (if-let ((why (and theme (faces-measure-load theme))))
            (push (list :left-out theme :why why) lines)
          ;; What redisplay would do.
          (edn-bridge-faces-refresh)
          (faces-measure-faces theme)
          (faces-measure-chat theme)
          (push (list :theme theme
                      :default (apply #'faces-measure-contrast
                                      (faces-measure-seen nil))
                      :read (alist-get 'read faces-measure-worst)
                      :muted (alist-get 'muted faces-measure-worst))
                lines))))
    (list :colors (display-color-cells)
          :unclassed
          (cl-remove-if
           (lambda (face)
             (or (not (string-prefix-p "edn-bridge" (symbol-name face)))
                 (memq (plist-get (get face 'edn-bridge-faces) :class)
                       '(read muted mark))))
           (face-list))
          :themes (reverse lines)
          :failures (reverse faces-measure-failures))))

(defun faces-measure ()
  "Write what was measured to the file that is asked for, and end Emacs."
  (let ((result (condition-case err
                    (faces-measure-all)
                  (error (list :error (format "%S" err))))))
    (with-temp-file (getenv "EDN_BRIDGE_FACES_OUT")
      (let (print-length print-level)
        (prin1 result (current-buffer))))
    (kill-emacs 0)))

(add-hook 'emacs-startup-hook #'faces-measure 90)

;;; faces-measure.el ends here
