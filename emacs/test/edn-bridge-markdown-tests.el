;;; edn-bridge-markdown-tests.el --- Tests of the faces of markdown  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defun edn-bridge-markdown-tests-runs ()
  "Return the runs of this buffer's text that have a face, with it."
  (let ((runs nil)
        (place (point-min)))
    (while (< place (point-max))
      (let ((next (next-single-property-change place 'face nil (point-max)))
            (face (get-text-property place 'face)))
        (when face
          (push (list (buffer-substring-no-properties place next) face) runs))
        (setq place next)))
    (nreverse runs)))

(defun edn-bridge-markdown-tests-faces (text)
  "Return the runs of TEXT, given faces as a whole, that have a face."
  (with-temp-buffer
    (insert text)
    (edn-bridge-markdown-region (point-min) (point-max))
    (edn-bridge-markdown-tests-runs)))

(ert-deftest edn-bridge-markdown-puts-faces ()
  (pcase-dolist
      (`(,text ,runs)
       '(("plain" nil)
         ("a **b** c" (("**b**" edn-bridge-markdown-bold)))
         ("a *b* `c*d*`" (("*b*" edn-bridge-markdown-italic)
                          ("`c*d*`" edn-bridge-markdown-code)))
         ("2 * 3 * 4, snake_case_name" nil)
         ("a ~~b c~~ d ~~ e" (("~~b c~~" edn-bridge-markdown-struck)))
         ("a \\*b\\* \\_c\\_ \\[d](e)" nil)
         ("# Title\nx" (("# Title" edn-bridge-markdown-heading)))
         ("- one\n" (("- " edn-bridge-markdown-markup)))
         ("see https://a.b/c?d." (("https://a.b/c?d" edn-bridge-markdown-link)))
         ("see [c](d.txt)." (("[c](d.txt)" edn-bridge-markdown-link)))
         ("```\n**x**\n```\n**y**"
          (("```" edn-bridge-markdown-language)
           ("**x**\n" edn-bridge-markdown-block)
           ("```" edn-bridge-markdown-markup)
           ("**y**" edn-bridge-markdown-bold)))
         ("````\n```\n````\n"
          (("````" edn-bridge-markdown-language)
           ("```\n" edn-bridge-markdown-block)
           ("````" edn-bridge-markdown-markup)))))
    (ert-info (text :prefix "text: ")
      (should (equal (edn-bridge-markdown-tests-faces text) runs)))))

(defun edn-bridge-markdown-tests-display (value)
  "Return the string that VALUE of the property `display' shows now, or nil."
  (pcase value
    ((pred stringp) value)
    (`(when ,form . ,string) (and (eval form t) string))
    ((pred consp) (cl-some #'edn-bridge-markdown-tests-display value))))

(defun edn-bridge-markdown-tests-displayed ()
  "Return the text of this buffer as it is displayed."
  (let ((text "")
        (place (point-min)))
    (while (< place (point-max))
      (let* ((shown (and (not (invisible-p place))
                         (edn-bridge-markdown-tests-display
                          (get-text-property place 'display))))
             (next (next-single-property-change place 'display nil
                                                (point-max)))
             ;; What is displayed stands for all of its text.
             (next (if shown
                       next
                     (min next (next-single-property-change
                                place 'invisible nil (point-max))))))
        (setq text (concat text
                           (cond ((invisible-p place) "")
                                 (shown (substring-no-properties shown))
                                 (t (buffer-substring-no-properties
                                     place next))))
              place next)))
    text))

(defmacro edn-bridge-markdown-tests-with (text &rest body)
  "Run BODY in a buffer with TEXT, given faces as a whole."
  (declare (indent 1))
  `(with-temp-buffer
     (edn-bridge-markdown-setup)
     (insert ,text)
     (edn-bridge-markdown-region (point-min) (point-max))
     ,@body))

(ert-deftest edn-bridge-markdown-hides-markup ()
  (pcase-dolist
      (`(,text ,displayed)
       '(("a **b** *c* `d` ~~e~~ _f_" "a b c d e f")
         ("**`a`** and [`b`](c.txt:1)" "a and b")
         ("\\*a\\* 2 * 3" "*a* 2 * 3")
         ("## Title" "Title")
         ("> quoted *so*" "▌ quoted so")
         ("- a\n  * b\n1. c\n" "• a\n  • b\n1. c\n")
         ("- [ ] a\n- [x] b\n" "☐ a\n☑ b\n")
         ("a\n\n---\n" ("a\n\n" "────\n"))
         ("```el\n*x*\n```\n" "el\n*x*\n")
         ("```\nx\n```\n" "code\nx\n")
         ("[the page](https://a.b/c)" "the page")
         ("![a picture](a.png)" "a picture")
         ;; A label must not pass for another page.
         ("[https://bank.com](https://evil.io)"
          "https://bank.com(https://evil.io)")
         ("[bank.com](https://bank.com.evil.io)"
          "bank.com(https://bank.com.evil.io)")
         ("[https://a.b/](https://a.b/)" "https://a.b/")))
    (ert-info (text :prefix "text: ")
      (edn-bridge-markdown-tests-with text
        (if (consp displayed)
            (dolist (part displayed)
              (should (string-search part (edn-bridge-markdown-tests-displayed))))
          (should (equal (edn-bridge-markdown-tests-displayed) displayed)))
        (should (equal (buffer-string) text))
        (edn-bridge-markdown-toggle-markup)
        (should (equal (edn-bridge-markdown-tests-displayed) text))
        (edn-bridge-markdown-toggle-markup)
        (should-not (equal (edn-bridge-markdown-tests-displayed) text))))))

(ert-deftest edn-bridge-markdown-copy-has-the-markup ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((text "- a **b** [c](d)\n\n| a |\n|---|\n| b |\n")
          (kill-ring nil))
      (edn-bridge-test-event conn "assistant/message" :role "assistant"
                             :content text)
      (goto-char (point-min))
      (search-forward "Assistant\n")
      (kill-ring-save (point) (edn-bridge-transcript-end))
      (should (equal (car kill-ring) text))
      (dolist (property '(display invisible))
        (should-not (text-property-not-all 0 (length text) property nil
                                           (car kill-ring)))))))

(ert-deftest edn-bridge-markdown-leaves-what-is-below-alone ()
  (dolist (text '("```\nx" "```\nx\n```" "| a |\n|---|\n| b |" "- a"))
    (with-temp-buffer
      (insert text "\n")
      (let ((end (point)))
        (insert "below")
        (edn-bridge-markdown-region (point-min) (1- end))
        (should-not (text-properties-at (1- end)))
        (should-not (text-properties-at end))))))

(ert-deftest edn-bridge-markdown-shows-images-on-demand ()
  (let* ((default-directory (file-name-as-directory
                             (make-temp-file "edn-bridge" t)))
         (read nil))
    (unwind-protect
        (cl-letf (((symbol-function 'display-images-p) (lambda (&rest _) t))
                  ((symbol-function 'image-type-available-p) (lambda (_) t))
                  ((symbol-function 'create-image)
                   (lambda (data type &rest _)
                     ;; Not found out by what the bytes look like.
                     (should (eq type 'png))
                     (push data read)
                     '(image))))
          (write-region "bytes" nil "a.png" nil 'quiet)
          (edn-bridge-markdown-tests-with "x ![a](a.png) ![b](/ssh:h:/b.png)"
            (should-not read)
            (goto-char (point-min))
            (search-forward "[a")
            (edn-bridge-markdown-follow)
            (should (equal read '("bytes")))
            (should (equal (get-text-property (point) 'display) '(image)))
            (edn-bridge-markdown-follow)
            (should-not (get-text-property (point) 'display))
            (search-forward "[b")
            (should-error (edn-bridge-markdown-follow) :type 'user-error)
            (should (equal read '("bytes")))))
      (delete-directory default-directory t))))

(ert-deftest edn-bridge-markdown-lays-out-tables ()
  (let ((table "| a | bb |
|---|--:|
| **long** one | 1 |
| 世界 | 22 \\| x |
")
        (hidden "│ a        │     bb │
├──────────┼────────┤
│ long one │      1 │
│ 世界     │ 22 | x │
")
        (shown "│ a            │      bb │
├──────────────┼─────────┤
│ **long** one │       1 │
│ 世界         │ 22 \\| x │
"))
    (dolist (after '("" "\nText" "```\n| x |\n```\n"))
      (edn-bridge-markdown-tests-with (concat table after)
        (should (string-prefix-p hidden (edn-bridge-markdown-tests-displayed)))
        (edn-bridge-markdown-toggle-markup)
        (should (equal (edn-bridge-markdown-tests-displayed)
                       (concat shown after)))
        (should (equal (buffer-string) (concat table after)))))
    ;; Bit by bit it comes to the same.
    (with-temp-buffer
      (edn-bridge-markdown-setup)
      (let ((state (edn-bridge-markdown-begin (point-min))))
        (dolist (char (append table "end" nil))
          (let ((from (point-max)))
            (goto-char from)
            (insert char)
            (edn-bridge-markdown-feed state from (point-max))))
        (edn-bridge-markdown-finish state (point-max)))
      (should (equal (edn-bridge-markdown-tests-displayed)
                     (concat hidden "end"))))))

(ert-deftest edn-bridge-markdown-leaves-other-bars-alone ()
  (dolist (text (list "| not a table\n| really\n" "|\n|\n" "| a |\n"
                      ;; Codes are displayed for what cannot be seen.
                      (concat "| " (make-string 200 ?x)
                              " |\n|---|\n| b\u202e |\n")
                      (concat "| a |\n|---|\n"
                              (apply #'concat (make-list 9000 "| b |\n")))))
    (with-temp-buffer
      (insert text)
      (edn-bridge-markdown-region (point-min) (point-max))
      (should (equal (string-replace " [Whole table]" ""
                                     (edn-bridge-markdown-tests-displayed))
                     text)))))

;; A table too wide for the window is wrapped in its cells.
(ert-deftest edn-bridge-markdown-wraps-the-cells-of-wide-tables ()
  (let* ((table "| Name | What it **does** | n |
|---|---|--:|
| 世界 | It [follows](a.txt) the width of `the window` here | 1 |
| b |  | 22 |
")
         (columns 41)
         (in-columns "[Whole table]
│ Name │ What it does          │  n │
├──────┼───────────────────────┼────┤
│ 世界 │ It follows the width  │  1 │
│      │ of the window here    │    │
├──────┼───────────────────────┼────┤
│ b    │                       │ 22 │
")
         (as-fields "[Whole table]
────────────────────────
Name      世界
What it   It follows the
does      width of the
          window here
n         1
────────────────────────
Name      b
n         22
"))
    (cl-letf (((symbol-function 'edn-bridge-markdown--table-width)
               (lambda () columns)))
      (edn-bridge-markdown-tests-with (concat table "End")
        (setq columns 37)
        (edn-bridge-markdown-fit-table
         (point-min) (get-text-property (point-min)
                                        'edn-bridge-markdown-fitted))
        (should (equal (edn-bridge-markdown-tests-displayed)
                       (concat in-columns "End")))
        (should (equal (buffer-string) (concat table "End")))
        ;; Faces and links of the cells stay.
        (goto-char (point-min))
        (forward-line 2)
        ;; Each line is displayed for text of its own.
        (let* ((row (edn-bridge-markdown-tests-display
                     (get-text-property (point) 'display)))
               (place (string-search "follows" row)))
          (should (equal "a.txt" (get-text-property
                                  place 'edn-bridge-markdown-target row)))
          (should (memq 'edn-bridge-markdown-link
                        (ensure-list (get-text-property place 'face row))))
          (should (equal row "│ 世界 │ It follows the width  │  1 │\n"))
          (dotimes (_ 3)
            (should (eq (key-binding (kbd "RET"))
                        #'edn-bridge-markdown-view-table))
            (goto-char (next-single-property-change (point) 'display))))
        ;; With a cell below 12 columns it is one field a line.
        (setq columns 24)
        (edn-bridge-markdown-fit-table
         (point-min) (get-text-property (point-min)
                                        'edn-bridge-markdown-fitted))
        (should (equal (edn-bridge-markdown-tests-displayed)
                       (concat as-fields "End")))
        ;; With the markup, the text is shown as it is.
        (edn-bridge-markdown-toggle-markup)
        (should (equal (edn-bridge-markdown-tests-displayed)
                       (concat table "End")))
        (edn-bridge-markdown-toggle-markup)
        ;; Where it fits again, nothing of that is left.
        (setq columns 100)
        (edn-bridge-markdown-fit-table
         (point-min) (get-text-property (point-min)
                                        'edn-bridge-markdown-fitted))
        (let ((fitted (edn-bridge-markdown-tests-displayed)))
          (edn-bridge-markdown-tests-with (concat table "End")
            (should (equal fitted (edn-bridge-markdown-tests-displayed)))))
        (should-not (text-property-any (point-min) (point-max) 'keymap
                                       edn-bridge-markdown-table-map))))))

(ert-deftest edn-bridge-markdown-wraps-lines-between-words ()
  (pcase-dolist (`(,text ,width . ,lines)
                 '(("" 5 "") ("one two" 7 "one two") ("one two" 6 "one" "two")
                   ("one two" 3 "one" "two") ("abcdefg h" 3 "abc" "def" "g h")
                   ("世界世界" 5 "世界" "世界") ("世" 1 "世")
                   ("a  b" 2 "a" "b")))
    (should (equal (edn-bridge-markdown--wrapped text width) lines))))

;; A new piece has no field yet; what stands before it has one.
(ert-deftest edn-bridge-markdown-table-behind-a-field-is-laid-out ()
  (let ((head (propertize "Assistant\n" 'field 'before))
        (table "| a | b |\n|---|---|\n| c | d |\n"))
    (edn-bridge-markdown-tests-with (concat table "End")
      (let ((looks (edn-bridge-markdown-tests-displayed)))
        (edn-bridge-markdown-tests-with (concat head table "End")
          (should (equal (edn-bridge-markdown-tests-displayed)
                         (concat head looks))))))))

(ert-deftest edn-bridge-markdown-wide-table-has-a-buffer-of-its-own ()
  (let ((table (concat "| a | b |\n|---|---|\n| " (make-string 150 ?x)
                       " | c |\n")))
    (edn-bridge-markdown-tests-with (concat table "\nEnd")
      (goto-char (point-min))
      (should (eq (key-binding (kbd "RET")) #'edn-bridge-markdown-view-table))
      (save-window-excursion
        (edn-bridge-markdown-view-table)
        (unwind-protect
            (with-current-buffer "*edn-bridge table*"
              (should (equal (buffer-string) table))
              (should (string-prefix-p "│ a  " (edn-bridge-markdown-tests-displayed))))
          (kill-buffer "*edn-bridge table*"))))))

(ert-deftest edn-bridge-markdown-tables-follow-the-windows-width ()
  (save-window-excursion
    (edn-bridge-test-with-chat (conn _sent)
      (let ((columns 100)
            (laid-out 0)
            (text "| name | a **strong** word |\n|---|---|\n| b | [link](https://example.org) |\n\nEnd\n\n"))
        (cl-letf* (((symbol-function 'edn-bridge-markdown--table-width)
                    (lambda () columns))
                   (rows (symbol-function 'edn-bridge-markdown--rows))
                   ((symbol-function 'edn-bridge-markdown--rows)
                    (lambda (&rest args)
                      (cl-incf laid-out)
                      (apply rows args))))
          (set-window-buffer (selected-window) (current-buffer))
          (edn-bridge-test-event
           conn "assistant/message" :session-id "s1" :role "assistant"
           :entry-id "e1" :stop-reason "end-turn"
           :content (vector (list :type :text
                                  :text (mapconcat #'identity
                                                   (make-list 40 text) ""))))
          (edn-bridge-transcript-set-draft "a draft")
          (cl-flet ((resize (width)
                      (setq columns width
                            laid-out 0)
                      (set-window-start (selected-window)
                                        (- (edn-bridge-transcript-end) 200))
                      (edn-bridge-transcript--on-resize (selected-window))
                      (prog1 laid-out
                        (while edn-bridge-transcript--fitting
                          (edn-bridge-transcript--fit-rest
                           (current-buffer))))))
            (let ((wide (edn-bridge-markdown-tests-displayed))
                  (plain (edn-bridge-test-transcript)))
              (should (= laid-out 40))
              ;; What is seen is laid out at once, the rest in slices.
              (should (< 0 (resize 15) 40))
              (should (= laid-out 40))
              (progn
                (should-not (equal wide (edn-bridge-markdown-tests-displayed)))
                (goto-char (point-min))
                (search-forward "| name")
                (should (equal "[Whole table]"
                               (edn-bridge-markdown-tests-display
                                (get-text-property (match-beginning 0)
                                                   'display))))
                (should (eq (get-text-property (match-beginning 0) 'keymap)
                            edn-bridge-markdown-table-map))
                (should (equal plain (edn-bridge-test-transcript)))
                ;; What is wrapped is wrapped anew.
                (resize 14)
                (should (= laid-out 40)))
              (resize 100)
              (should (= laid-out 40))
              (should (equal wide (edn-bridge-markdown-tests-displayed)))
              (should (equal (edn-bridge-transcript-draft) "a draft")))))))))

(ert-deftest edn-bridge-markdown-lays-out-a-table-of-500-rows ()
  (edn-bridge-markdown-tests-with
      (concat "| name | figure | note |\n|---|---|---|\n"
              (mapconcat (lambda (n) (format "| row %d | %d | a **note** |\n" n (* n n)))
                         (number-sequence 1 500) ""))
    (goto-char (point-max))
    (forward-line -1)
    (should (string-search "│" (edn-bridge-markdown-tests-display
                                (get-text-property (point) 'display))))))

(ert-deftest edn-bridge-markdown-copies-code ()
  (with-temp-buffer
    (insert "Look:\n```el\n(a)\n\n(b)\n```\nEnd\n```\nc\n```\n")
    (edn-bridge-markdown-region (point-min) (point-max))
    (while edn-bridge-markdown--buffers
      (edn-bridge-markdown-fontify-blocks))
    (goto-char (point-min))
    (search-forward "``el")
    (let ((kill-ring nil)
          (inhibit-message t))
      (should (eq (key-binding (kbd "RET")) #'edn-bridge-markdown-copy-code))
      (edn-bridge-markdown-copy-code)
      (should (equal (car kill-ring) "(a)\n\n(b)\n"))
      (dolist (place '("(a" "(b)"))
        (setq kill-ring nil)
        (search-forward place)
        (backward-char)
        (edn-bridge-markdown-copy-code)
        (should (equal (car kill-ring) "(a)\n\n(b)\n")))
      (search-forward "End")
      (should-not (eq (key-binding (kbd "RET"))
                      #'edn-bridge-markdown-copy-code)))))

(ert-deftest edn-bridge-markdown-looks-alike-however-it-is-split ()
  (let* ((text "# T\nSome **bold** and `code`.\n- *x*\n\n```el\n(a \"b\")\n```\nEnd **b**\n")
         (whole (edn-bridge-markdown-tests-faces text)))
    (dolist (size '(1 2 3 5 8 13))
      (with-temp-buffer
        (let ((state (edn-bridge-markdown-begin (point-min)))
              (start 0))
          (while (< start (length text))
            (let ((from (point-max)))
              (goto-char from)
              (insert (substring text start (min (length text) (+ start size))))
              (edn-bridge-markdown-feed state from (point-max)))
            (setq start (+ start size)))
          (edn-bridge-markdown-finish state (point-max)))
        (should (equal (edn-bridge-markdown-tests-runs) whole))))))

(ert-deftest edn-bridge-markdown-gives-code-the-faces-of-its-mode ()
  (with-temp-buffer
    (insert "```el\n(defun f () \"x\")\n```\n")
    (edn-bridge-markdown-region (point-min) (point-max))
    (goto-char (point-min))
    (search-forward "defun")
    ;; Each call works for a short time.
    (edn-bridge-test-wait
     (progn (edn-bridge-markdown-fontify-blocks)
            (memq 'edn-bridge-on-raised:font-lock-keyword-face
                  (ensure-list (get-text-property (1- (point)) 'face)))))))

(ert-deftest edn-bridge-markdown-language-mode-is-markdown-mode-s ()
  (skip-unless (not (locate-library "markdown-mode")))
  (should-not (edn-bridge-markdown--mode "edn-bridge-tests-language"))
  (let ((folder (make-temp-file "edn-bridge" t)))
    (unwind-protect
        (let ((load-path (cons folder load-path)))
          (write-region
           "(defun markdown-get-lang-mode (language)
  (if (equal language \"edn-bridge-tests-evil\") 'server-mode 'sh-mode))
(provide 'markdown-mode)\n"
           nil (expand-file-name "markdown-mode.el" folder) nil 'quiet)
          (should (eq (edn-bridge-markdown--mode "edn-bridge-tests-language")
                      'sh-mode))
          (should-not (edn-bridge-markdown--mode "edn-bridge-tests-evil")))
      (unload-feature 'markdown-mode t)
      (delete-directory folder t))))

(ert-deftest edn-bridge-markdown-follows-links ()
  (pcase-dolist
      (`(,text ,went)
       '(("see https://a.b/c?d." ("https://a.b/c?d"))
         ("see [the page](https://a.b/c)!" ("https://a.b/c"))
         ("see [notes](notes.txt)" ("notes.txt" nil))
         ("see [notes](notes.txt:12:3)" ("notes.txt" 12))
         ("see [notes](file:///x/notes.txt#L12-L14)" ("/x/notes.txt" 12))))
    (with-temp-buffer
      (insert text)
      (edn-bridge-markdown-region (point-min) (point-max))
      (let ((gone nil))
        (cl-letf (((symbol-function 'browse-url)
                   (lambda (url &rest _) (setq gone (list url))))
                  ((symbol-function 'edn-bridge-transcript-visit)
                   (lambda (file &optional line) (setq gone (list file line)))))
          (goto-char (point-min))
          (should-error (edn-bridge-markdown-follow) :type 'user-error)
          (forward-char 6)
          (should (eq (key-binding (kbd "RET")) #'edn-bridge-markdown-follow))
          (edn-bridge-markdown-follow)
          (ert-info (text)
            (should (equal gone went))))))))

(ert-deftest edn-bridge-markdown-refuses-links-elsewhere ()
  (let ((default-directory temporary-file-directory)
        ;; Its parent is the root, whoever runs the test.
        (process-environment (cons "HOME=/home" process-environment))
        (connected nil))
    (cl-letf (((symbol-function 'browse-url)
               (lambda (&rest _) (push 'page connected)))
              ((symbol-function 'find-file-other-window)
               (lambda (file &rest _) (push file connected)))
              ((symbol-function 'file-exists-p)
               (lambda (file) (push file connected) t)))
      (dolist (target '("/ssh:evil@host:/y" "/ssh:evil@host:/y:12"
                        "file:///ssh:evil@host:/y" "file:///sudo:root@h:/etc"
                        "file:////ssh:evil@host:/y" "//ssh:evil@host:/y"
                        "../../../../../../../ssh:evil@host:/y"
                        "/tmp/../ssh:evil@host:/y" "~/../ssh:evil@host:/y"
                        "javascript:alert(1)" "data:text/html,x"
                        "man:ls" "info:emacs" "ftp://h/x" "elisp:(x)"
                        "file://host/x" "x-special:/y"))
        (with-temp-buffer
          (insert (propertize "x" 'edn-bridge-markdown-target target))
          (goto-char (point-min))
          (ert-info (target)
            (should-error (edn-bridge-markdown-follow) :type 'user-error)
            (should-not connected))))
      ;; Of the chat's own host.
      (let ((default-directory "/ssh:me@here:/work/"))
        (should (equal (edn-bridge-transcript-file "/etc/hosts")
                       "/ssh:me@here:/etc/hosts"))
        (should-error (edn-bridge-transcript-file "/ssh:me@there:/x")
                      :type 'user-error)))))

(ert-deftest edn-bridge-markdown-calls-only-modes-for-code ()
  (dolist (language '("server" "desktop-save" "auto-save-visited" "url-handler"
                      "global-auto-revert" "recentf" "normal" "fundamental"
                      "org" "archive" "tar" "image" "doc-view" "hexl"
                      "dired" "eshell" "mail" "message" "savehist" "flymake"
                      "display-time" "view" "emacs-lisp-mode"))
    (ert-info (language)
      (should-not (edn-bridge-markdown--mode language))))
  (pcase-dolist (`(,language . ,mode) '(("python" . python-mode)
                                        ("PY" . python-mode) ("c" . c-mode)
                                        ("emacs-lisp" . emacs-lisp-mode)
                                        ("sh" . sh-mode) ("css" . css-mode)
                                        ("conf-unix" . conf-unix-mode)
                                        ("html" . html-mode)
                                        ("diff" . diff-mode)))
    (ert-info (language)
      (should (eq (edn-bridge-markdown--mode language) mode))))
  (let ((edn-bridge-markdown-languages '(("mine" . text-mode))))
    (should (eq (edn-bridge-markdown--mode "mine") 'text-mode))))

(ert-deftest edn-bridge-markdown-text-of-code-sets-nothing ()
  (let ((done nil)
        (enable-local-variables :all)
        (enable-local-eval t))
    (cl-letf (((symbol-function 'edn-bridge-markdown-tests-evil)
               (lambda (&rest _) (setq done t))))
      (let ((prog-mode-hook '(edn-bridge-markdown-tests-evil))
            (emacs-lisp-mode-hook '(edn-bridge-markdown-tests-evil))
            (find-file-hook '(edn-bridge-markdown-tests-evil)))
        (with-temp-buffer
          (insert "```el\n;; -*- eval: (edn-bridge-markdown-tests-evil) -*-\n"
                  ";; Local " "Variables:\n"
                  ";; eval: (edn-bridge-markdown-tests-evil)\n"
                  ";; End:\n```\n")
          (dotimes (_ 2)
            (edn-bridge-markdown-region (point-min) (point-max))
            (edn-bridge-markdown-fontify-blocks)))))
    (should-not done)
    (should-not (bound-and-true-p server-process))))

(ert-deftest edn-bridge-markdown-many-small-things-are-bounded ()
  (cl-flet ((marked (text property)
              (with-temp-buffer
                (insert text)
                (edn-bridge-markdown-region (point-min) (point-max))
                (let ((count 0)
                      (place (point-min)))
                  (while (setq place (text-property-not-all
                                      place (point-max) property nil))
                    (setq count (1+ count)
                          place (next-single-property-change
                                 place property nil (point-max))))
                  count)))
            (many (count text)
              (apply #'concat (make-list count text))))
    ;; Some thousands of these take half a second to lay out or to show.
    (should (< 100 (marked (many 4000 "```\n") 'display) 300))
    (should (< 100 (marked (many 2000 "|a|b|\n|-|-|\n|x|y|\n\n") 'display)
               4100))
    (should (= 0 (marked (concat "|a|b|\n|-|-|\n" (many 1500 "|x|y|\n"))
                         'display)))))

(ert-deftest edn-bridge-markdown-slow-code-gets-no-faces ()
  (with-temp-buffer
    (insert (apply #'concat (make-list 100 "(setq a 1)\n")))
    (let ((text (buffer-string))
          (inserted 0))
      (with-temp-buffer
        ;; As the modes for C do, which look at what is inserted.
        (add-hook 'after-change-functions
                  (lambda (from to _)
                    (setq inserted (+ inserted (- to from)))
                    (let ((begun (float-time)))
                      (while (< (- (float-time) begun)
                                (* 2 edn-bridge-markdown--slow)))))
                  nil t)
        (should-not (edn-bridge-markdown--insert-parts text))
        (should (< 0 inserted 500)))
      (with-temp-buffer
        (should (edn-bridge-markdown--insert-parts text))
        (should (equal (buffer-string) text))))))

(defun edn-bridge-markdown-tests-long ()
  "Return a long answer with headings and code to its end."
  (mapconcat (lambda (index)
               (format "## Section %d\n\nSome *text* of it, and more of it.\n\n```el\n(defun f%d ())\n```\n"
                       index index))
             (number-sequence 1 1500) "\n"))

(ert-deftest edn-bridge-markdown-formats-long-answers-to-their-end ()
  (dolist (how '(whole streamed))
    (edn-bridge-test-with-chat (conn _sent)
      (let ((text (edn-bridge-markdown-tests-long)))
        (should (> (length text) (* 2 edn-bridge-markdown--piece-limit)))
        (when (eq how 'streamed)
          (dolist (part (seq-partition text 1000))
            (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                                   :text part)))
        (edn-bridge-test-event
         conn "assistant/message" :session-id "s1" :role "assistant"
         :content (vector (list :type :text :text text)))
        (edn-bridge-test-wait (progn (edn-bridge-markdown-fontify-blocks)
                                     (not edn-bridge-markdown--buffers))
                              60)
        (should (string-search "## Section 1500\n" (edn-bridge-test-transcript)))
        (ert-info ((symbol-name how))
          (cl-flet ((faces (text)
                      (goto-char (point-min))
                      (search-forward text)
                      (ensure-list (get-text-property (1- (point)) 'face))))
            (dolist (index '(1 400 700 1499 1500))
              (should (memq 'edn-bridge-markdown-heading
                            (faces (format "Section %d" index))))
              (should (memq 'edn-bridge-on-raised:font-lock-function-name-face
                            (faces (format "(defun f%d" index)))))))))))

(ert-deftest edn-bridge-markdown-wide-table-has-a-button-and-a-heading ()
  (with-temp-buffer
    (edn-bridge-markdown-setup)
    (let ((row (lambda (cell) (format "| %s | %s |\n" cell (make-string 150 ?x)))))
      (insert (funcall row "Name") "|---|---|\n" (funcall row "a%")))
    (edn-bridge-markdown-region (point-min) (point-max))
    (goto-char (point-min))
    (should (string-prefix-p "[Whole table]\n│ Name "
                             (edn-bridge-markdown-tests-displayed)))
    (should (eq (lookup-key (get-text-property (point) 'keymap) (kbd "RET"))
                #'edn-bridge-markdown-view-table))
    (save-window-excursion
      (edn-bridge-markdown-view-table)
      (set-buffer "*edn-bridge table*")
      (should header-line-format)
      (should (string-prefix-p "│ Name │ xxx"
                               (edn-bridge-markdown--scrolled-heading)))
      ;; It goes where the lines go.
      (set-window-hscroll nil 4)
      (should (string-prefix-p "me │ xxx"
                               (edn-bridge-markdown--scrolled-heading)))
      (set-window-buffer nil (current-buffer))
      (set-window-hscroll nil 0)
      (call-interactively (key-binding (kbd ">")))
      (should (= (window-hscroll) (/ (window-width) 2)))
      (dotimes (_ 20)
        (call-interactively (key-binding (kbd ">"))))
      (should (string-match-p "xxx │ *\\'"
                              (edn-bridge-markdown--scrolled-heading)))
      (dotimes (_ 20)
        (call-interactively (key-binding (kbd "<"))))
      (should (= (window-hscroll) 0))
      (kill-buffer))))

(defconst edn-bridge-markdown-tests-wide
  (concat "| Name | Bild | Preis |\n|---|:-:|--:|\n| りんご | 🍎 | 100 |\n"
          "| apple `x` | 👩‍👩‍👧 | 5 |\n| שלום | e | 12345 |\n")
  "A table whose characters are as wide as their fonts make them.")

(defun edn-bridge-markdown-tests-bars ()
  "Return the pixels at which the bars of the lines of this buffer begin."
  (let ((bars nil))
    (goto-char (point-min))
    (while (search-forward "|" nil t)
      (push (car (posn-x-y (posn-at-point (1- (point)))))
            (alist-get (line-number-at-pos) bars)))
    (mapcar #'cdr bars)))

;; EDN_BRIDGE_GRAPHIC_EMACS names an Emacs that can show graphics, where that
;; of the tests cannot; emacs-gtk has to find its libraries.
(ert-deftest edn-bridge-markdown-bars-of-a-table-align-in-pixels ()
  (let ((program (or (getenv "EDN_BRIDGE_GRAPHIC_EMACS")
                     (and (fboundp 'x-create-frame)
                          (expand-file-name invocation-name
                                            invocation-directory))))
        (folder (make-temp-file "edn-bridge" t))
        (server nil))
    (unwind-protect
        (progn
          (skip-unless (and program (executable-find "Xvfb")))
          (let* ((out (expand-file-name "out" folder))
                 (display (expand-file-name "display" folder))
                 (form
                  `(progn
                     (dolist (folder ',load-path)
                       (add-to-list 'load-path folder t))
                     (require 'edn-bridge-markdown-tests)
                     (switch-to-buffer "table")
                     (setq bidi-paragraph-direction 'left-to-right)
                     (edn-bridge-markdown-setup)
                     (insert edn-bridge-markdown-tests-wide)
                     (edn-bridge-markdown-region (point-min) (point-max))
                     (redisplay t)
                     (with-temp-file ,out
                       (prin1 (cons (display-graphic-p)
                                    (with-current-buffer "table"
                                      (edn-bridge-markdown-tests-bars)))
                              (current-buffer)))
                     (kill-emacs))))
            (setq server (start-process-shell-command
                          "edn-bridge-xvfb" nil
                          (format "exec Xvfb -displayfd 3 -nolisten tcp 3>%s"
                                  (shell-quote-argument display))))
            (set-process-query-on-exit-flag server nil)
            (with-temp-buffer
              (edn-bridge-test-wait
               (and (file-exists-p display)
                    (progn (erase-buffer)
                           (insert-file-contents display)
                           (string-match-p "\\`[0-9]+\n" (buffer-string)))))
              (let ((process-environment
                     (append (list (concat "DISPLAY=:" (string-trim (buffer-string)))
                                   "GDK_BACKEND=x11" "GSETTINGS_BACKEND=memory")
                             process-environment)))
                (start-process "edn-bridge-graphic" nil program "-Q"
                               "--eval" (format "%S" form)))
              (edn-bridge-test-wait (and (file-exists-p out)
                                         (> (file-attribute-size
                                             (file-attributes out))
                                            0))
                                    60))
            (pcase-let ((`(,graphic . ,bars)
                         (with-temp-buffer
                           (insert-file-contents out)
                           (read (current-buffer)))))
              (should graphic)
              (should (= (length bars) 5))
              (should (= (length (car bars)) 4))
              (should (= 1 (length (seq-uniq bars)))))))
      (when server
        (delete-process server))
      (delete-directory folder t))))

(provide 'edn-bridge-markdown-tests)

;;; edn-bridge-markdown-tests.el ends here
